"""What runs inside of the processes of a job. The folder itself is on their PYTHONPATH: see sitecustomize.py."""
