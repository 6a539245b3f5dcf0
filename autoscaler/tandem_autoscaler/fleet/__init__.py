"""What is to be scaled: services, their pools and their pods, as frozen values.

service.py   the values
group.py     a worker on several nodes is one
observe.py   manifests -> values (pure)
"""
