"""A Terraform provider in Python: notes, which are files of a folder. Their type is `note_note`."""

from pathlib import Path

from tf.iface import Provider, Resource
from tf.schema import Attribute, Schema
from tf.types import String

import plain


class Note(Resource):
    """The resource type."""

    def __init__(self, provider):
        self.folder = provider.folder

    @classmethod
    def get_name(cls):
        return "note"

    @classmethod
    def get_schema(cls):
        return Schema(
            version=1,
            attributes=[
                Attribute("id", String(), "Name of its file", computed=True),
                Attribute(
                    "title",
                    String(),
                    "What it is called; another one is another note",
                    required=True,
                    requires_replace=True,
                ),
                Attribute("text", String(), "What it says", optional=True),
            ],
        )

    def validate(self, diags, type_name, config):
        if config["title"] == "":
            diags.add_error("a note has a title", path=["title"])

    def create(self, ctx, planned):
        return self.write(ctx, {**planned, "id": planned["title"]})

    def update(self, ctx, current, planned):
        return self.write(ctx, planned)

    def read(self, ctx, current):
        try:
            found = self.file(current).read_text()
        except FileNotFoundError:
            return None  # It is gone.
        except OSError as error:
            # What cannot be read is not gone.
            ctx.diagnostics.add_error(f"read a note: {error}")
            return current
        # An empty file is one of a note that says nothing.
        text = found if found or current["text"] is not None else None
        return {"id": current["id"], "title": current["id"], "text": text}

    def delete(self, ctx, current):
        try:
            self.file(current).unlink(missing_ok=True)
        except OSError as error:
            ctx.diagnostics.add_error(f"delete a note: {error}")
            return current
        return None

    def import_(self, ctx, id):
        return {"id": id, "title": None, "text": None}

    def write(self, ctx, note):
        try:
            self.file(note).write_text(note["text"] or "")
        except OSError as error:
            ctx.diagnostics.add_error(f"write a note: {error}")
            return None
        return note

    def file(self, note):
        # A title is no way out of the folder.
        return Path(self.folder) / note["id"].replace("/", "_")


class Notebook(Provider):
    """What `config` of the entry says."""

    folder = ""

    def get_model_prefix(self):
        return "note_"

    def full_name(self):
        return "registry.example.com/example/note"

    def get_provider_schema(self, diags):
        return Schema(version=0, attributes=[Attribute("directory", String(), "Where the notes are", required=True)])

    def validate_config(self, diags, config):
        pass

    def configure_provider(self, diags, config):
        self.folder = config["directory"]

    def get_data_sources(self):
        return []

    def get_resources(self):
        return [Note]


def main():
    plain.serve(Notebook())
