# The image of all vendors' DaemonSets. Nothing is compiled, so it builds for every platform
# that the locked wheels are there for: amd64 and arm64.
#
#   docker build -t REGISTRY/deviceplugin:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t REGISTRY/deviceplugin:0.1.0 --push .
#
# For an image that is the same to the last byte name the base by its digest, too:
# --build-arg PYTHON_IMAGE=docker.io/library/python@sha256:…
ARG PYTHON_IMAGE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG SOURCE_DATE_EPOCH=1767225600
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY daemonset/image/build.txt daemonset/image/runtime.txt daemonset/image/
RUN pip install --require-hashes --only-binary :all: -r daemonset/image/build.txt \
 && python -m venv --without-pip /opt/deviceplugin \
 && pip --python /opt/deviceplugin/bin/python install \
    --require-hashes --only-binary :all: -r daemonset/image/runtime.txt
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY api api
COPY configs configs
COPY deviceplugin deviceplugin
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
 && pip --python /opt/deviceplugin/bin/python install --no-deps --no-index /dist/*.whl
# Bytecode is made here, because the root is read-only where it runs; with hashes instead of
# times, and all files of one time, so that two builds make the same layer.
RUN /opt/deviceplugin/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/deviceplugin/lib \
 && find /opt/deviceplugin -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="deviceplugin" \
      org.opencontainers.image.description="Kubelet device plugin daemon for accelerators and RDMA adapters" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/deviceplugin /opt/deviceplugin
ENV PATH=/opt/deviceplugin/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Root, for the kubelet's folders are root's alone; the manifests take every capability away.
USER 0:0
ENTRYPOINT ["deviceplugin"]
