"""The Kubernetes releases whose device manager the scenarios run on."""

RELEASES = ("1.34.4", "1.36.3", "1.37.2")


def minor(release: str) -> str:
    """Shorten a release: "1.37.2" is "1.37"."""
    return release.rpartition(".")[0]


MINORS = {minor(release): release for release in RELEASES}
