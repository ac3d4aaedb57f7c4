"""The parts of launch.netns. Private: use what launch.netns names."""
