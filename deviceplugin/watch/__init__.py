"""Watching files: kubelet.sock and the config folder."""
