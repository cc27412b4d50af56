"""The commands about images: pull, images, image inspect, rmi."""

from __future__ import annotations

import json
import os
import sys

from service.emulator.workers.docker.clock import now
from service.emulator.workers.docker.containers import Store
from service.emulator.workers.docker.formats import fill_template, format_age, format_rows
from service.emulator.workers.docker.images import Images, fetch_image, image_of
from service.emulator.workers.options import (
    Usage,
    declare_options,
    is_set,
    last_value,
    parse_options,
)

IMAGES = "table {{.Repository}}\t{{.Tag}}\t{{.ID}}\t{{.CreatedSince}}\t{{.Size}}"


def pull_image(store: Store, args: list[str]) -> int:
    options, names = parse_options(
        args,
        declare_options("all-tags quiet disable-content-trust", "platform", "a=all-tags q=quiet"),
    )
    if len(names) != 1:
        raise Usage('"docker pull" requires exactly 1 argument.')
    image = image_of(names[0])
    lines = fetch_image(Images(store.root), image, os.environ)
    name = image.reference if "/" in image.name else f"docker.io/library/{image.reference}"
    shown = [name] if is_set(options, "quiet") else [*lines, name]
    sys.stdout.write("".join(f"{line}\n" for line in shown))
    return 0


def list_images(store: Store, args: list[str]) -> int:
    options, _ = parse_options(
        args,
        declare_options("all quiet no-trunc digests", "filter format", "a=all q=quiet f=filter"),
    )
    rows = [
        {
            "Repository": image.name,
            "Tag": image.tag,
            "ID": image.id[:12],
            "CreatedSince": f"{format_age(now() - at)} ago",
            "Size": "1.2GB",
        }
        for image, at in Images(store.root).list_all()
    ]
    if is_set(options, "quiet"):
        lines = [str(row["ID"]) for row in rows]
    else:
        lines = format_rows(last_value(options, "format"), IMAGES, rows, "IMAGE")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def inspect_image(store: Store, args: list[str]) -> int:
    options, names = parse_options(args, declare_options("", "format", "f=format"))
    images = Images(store.root)
    found = [image_of(name) for name in names]
    missing = [image.reference for image in found if not images.has_image(image)]
    shown = [
        {
            "Id": f"sha256:{image.id}",
            "RepoTags": [] if image.digest else [image.reference],
            "RepoDigests": [images.repo_digest(image)],
            "Os": "linux",
            "Architecture": "amd64",
        }
        for image in found
        if images.has_image(image)
    ]
    template = last_value(options, "format")
    if template:
        sys.stdout.write("".join(f"{fill_template(template, document)}\n" for document in shown))
    else:
        sys.stdout.write(f"{json.dumps(shown, indent=4)}\n")
    for name in missing:
        sys.stderr.write(f"Error response from daemon: No such image: {name}\n")
    return 1 if missing else 0


def remove_image(store: Store, args: list[str]) -> int:
    _, names = parse_options(args, declare_options("force no-prune", "", "f=force"))
    for name in names:
        image = image_of(name)
        Images(store.root).delete(image)
        sys.stdout.write(f"Untagged: {image.reference}\n")
    return 0
