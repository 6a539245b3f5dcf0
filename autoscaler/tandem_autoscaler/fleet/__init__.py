"""What is to be scaled: services, their pools and their pods, as frozen values.

service.py   the values
observe.py   manifests -> values (pure)
"""
