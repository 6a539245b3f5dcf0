"""What is to be scaled: services, their pools and their pods, as frozen values.

service.py   the values
group.py     a worker on several nodes is one
chunks.py    how a worker's prompts are cut
observe.py   manifests -> values (pure)
"""
