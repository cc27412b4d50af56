# One image; the command chooses the role: serve, daemon, migrate, emulator or dev.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/steward
COPY constraints.txt ./
RUN /opt/steward/bin/pip install --no-cache-dir --require-hashes -r constraints.txt
COPY pyproject.toml README.md LICENSE ./
COPY service ./service
COPY migrations ./migrations
RUN /opt/steward/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim
RUN useradd --system --create-home --home-dir /var/lib/steward --uid 10001 steward
COPY --from=build /opt/steward /opt/steward
USER steward
WORKDIR /var/lib/steward
ENV PATH=/opt/steward/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    STEWARD_DATABASE_URL=sqlite:////var/lib/steward/steward.db
EXPOSE 8080
ENTRYPOINT ["tpu-steward"]
CMD ["serve"]
