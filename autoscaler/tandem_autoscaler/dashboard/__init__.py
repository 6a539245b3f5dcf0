"""The web page for people (`--dashboard-port`): read-only, off unless asked for, and of use without any other server.

seen.py       what one tick says about one service, taken over from the loop as frozen values
trail.py      the last half hour of it; the loop hands over, nothing flows back
document.py   what the page is told, as JSON (pure)
server.py     FastAPI: the page, its JSON, and the headers that guard both
page/         HTML, CSS and JavaScript, by hand and without a build
"""
