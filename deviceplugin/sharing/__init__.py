"""How devices become units: replicas, names, draining."""
