"""A whole node without hardware: machine, driver, kubelet, live view."""
