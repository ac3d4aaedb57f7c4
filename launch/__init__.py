"""Starting jobs: recipes for launchers, and a cluster of hosts on one machine to try them on."""
