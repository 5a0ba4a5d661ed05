"""Why do competing features converge? The debugger's own question, asked through its client.

`python -m studies.competitive` trains every condition over three seeds, looks into one run of each
while it is parked, and writes the tables of `docs/studies/competitive.md`.
"""
