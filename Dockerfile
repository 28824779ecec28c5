# One image for every role: dispatcher, worker, trainer. What it is, its command says.
ARG PYTHON_IMAGE=python:3.11-slim

FROM ${PYTHON_IMAGE} AS build
ARG PIP_VERSION=25.1
ARG BUILD_VERSION=1.2.2
WORKDIR /source
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir "pip==${PIP_VERSION}" "build==${BUILD_VERSION}" \
 && python -m venv --without-pip /opt/penstock
COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY services services
COPY docs/reference/errors.md docs/reference/errors.md
# What pipelines import beside Penstock: EXTRA_PACKAGES="torch==2.7.0 pillow".
ARG EXTRA_PACKAGES=""
RUN /opt/build/bin/python -m build --wheel --outdir /dist \
 && /opt/build/bin/pip --python /opt/penstock install --no-cache-dir /dist/*.whl ${EXTRA_PACKAGES}

FROM ${PYTHON_IMAGE}
RUN useradd --system --uid 10001 --create-home penstock \
 && install -d -o penstock -g penstock /var/lib/penstock /run/penstock \
 && install -d -m 0700 -o penstock -g penstock /etc/penstock /keys /keys/authority /keys/dispatcher \
      /keys/worker /keys/reader /keys/trainer /keys/operator
COPY --from=build /opt/penstock /opt/penstock
ENV PATH=/opt/penstock/bin:$PATH PYTHONUNBUFFERED=1
USER penstock
WORKDIR /home/penstock
ENTRYPOINT ["penstock"]
CMD ["--help"]
