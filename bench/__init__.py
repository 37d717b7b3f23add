"""The figures this project is held to, measured on real processes and sockets."""
