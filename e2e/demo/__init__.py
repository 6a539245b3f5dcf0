"""`make demo`: the main job, from nothing, on real parts.

stage.py    cluster, images, chart, manifest: everything that must stand before the first request
scene.py    what the cluster says of the service: replicas, targets, decisions (read through our own port)
story.py    the acts: prompt-heavy load, rest, output-heavy load, rest; each awaited, none assumed
screen.py   what the person sees
"""
