//! A Terraform provider in Rust: notes, which are files of a folder. Their type is `note_note`.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{Arc, OnceLock},
};
use tf_provider::{
    map,
    schema::{Attribute, AttributeConstraint, AttributeType, Block, Description, Schema},
    serve,
    value::{Value, ValueEmpty, ValueString},
    AttributePath, Diagnostics, DynamicDataSource, DynamicResource, Provider, Resource,
};

/// Where the notes are: told to the provider, used by its resources.
type Folder = Arc<OnceLock<PathBuf>>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Note<'a> {
    #[serde(borrow)]
    id: ValueString<'a>,
    #[serde(borrow)]
    title: ValueString<'a>,
    #[serde(borrow)]
    text: ValueString<'a>,
}

/// The resource type.
struct Notes(Folder);

impl Notes {
    fn file(&self, id: &ValueString<'_>) -> PathBuf {
        let name = text(id);
        // A title is no way out of the folder.
        self.0.get().cloned().unwrap_or_default().join(name.replace('/', "_"))
    }

    /// Writes a note, and says how that went.
    fn write<'a>(&self, diags: &mut Diagnostics, mut note: Note<'a>) -> Option<Note<'a>> {
        note.id = note.title.clone();
        match fs::write(self.file(&note.id), text(&note.text)) {
            Ok(()) => Some(note),
            Err(error) => {
                diags.root_error_short(format!("write {}: {error}", self.file(&note.id).display()));
                None
            }
        }
    }
}

fn text(value: &ValueString<'_>) -> String {
    match value {
        Value::Value(text) => text.to_string(),
        _ => String::new(),
    }
}

fn attribute(description: &str, constraint: AttributeConstraint) -> Attribute {
    Attribute {
        attr_type: AttributeType::String,
        description: Description::plain(description.to_owned()),
        constraint,
        ..Default::default()
    }
}

#[async_trait]
impl Resource for Notes {
    type State<'a> = Note<'a>;
    type PrivateState<'a> = ValueEmpty;
    type ProviderMetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let attributes = map! {
            "id" => attribute("Name of its file", AttributeConstraint::Computed),
            "title" => attribute("What it is called; another one is another note", AttributeConstraint::Required),
            "text" => attribute("What it says", AttributeConstraint::Optional),
        };
        let description = Description::plain("A note");
        Some(Schema { version: 1, block: Block { version: 1, description, attributes, ..Default::default() } })
    }

    async fn validate<'a>(&self, diags: &mut Diagnostics, note: Note<'a>) -> Option<()> {
        if matches!(&note.title, Value::Value(title) if title.is_empty()) {
            diags.error_short("a note has a title", AttributePath::new("title"));
        }
        Some(())
    }

    /// None: it is gone.
    async fn read<'a>(
        &self,
        diags: &mut Diagnostics,
        mut note: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        match fs::read_to_string(self.file(&note.id)) {
            // An empty file is one of a note that says nothing.
            Ok(found) if found.is_empty() && matches!(note.text, Value::Null) => {}
            Ok(found) => note.text = ValueString::from(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            // What cannot be read is not gone.
            Err(error) => diags.root_error_short(format!("read a note: {error}")),
        }
        Some((note, private))
    }

    async fn plan_create<'a>(
        &self,
        _: &mut Diagnostics,
        proposed: Note<'a>,
        _: Note<'a>,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        Some((Note { id: Value::Unknown, ..proposed }, Value::Null))
    }

    async fn plan_update<'a>(
        &self,
        _: &mut Diagnostics,
        prior: Note<'a>,
        proposed: Note<'a>,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty, Vec<AttributePath>)> {
        let replaces = prior.title != proposed.title;
        let paths = replaces.then(|| AttributePath::new("title")).into_iter().collect();
        Some((proposed, private, paths))
    }

    async fn plan_destroy<'a>(
        &self,
        _: &mut Diagnostics,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<ValueEmpty> {
        Some(private)
    }

    async fn create<'a>(
        &self,
        diags: &mut Diagnostics,
        planned: Note<'a>,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        Some((self.write(diags, planned)?, private))
    }

    async fn update<'a>(
        &self,
        diags: &mut Diagnostics,
        _: Note<'a>,
        planned: Note<'a>,
        _: Note<'a>,
        private: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<(Note<'a>, ValueEmpty)> {
        Some((self.write(diags, planned)?, private))
    }

    async fn destroy<'a>(
        &self,
        diags: &mut Diagnostics,
        note: Note<'a>,
        _: ValueEmpty,
        _: ValueEmpty,
    ) -> Option<()> {
        match fs::remove_file(self.file(&note.id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                diags.root_error_short(format!("remove a note: {error}"));
                None
            }
            _ => Some(()),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Config<'a> {
    #[serde(borrow)]
    directory: ValueString<'a>,
}

/// The provider itself.
struct NoteProvider(Folder);

#[async_trait]
impl Provider for NoteProvider {
    type Config<'a> = Config<'a>;
    type MetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let attributes = map! {
            "directory" => attribute("The folder with the notes", AttributeConstraint::Required),
        };
        Some(Schema { version: 1, block: Block { attributes, ..Default::default() } })
    }

    async fn validate<'a>(&self, _: &mut Diagnostics, _: Config<'a>) -> Option<()> {
        Some(())
    }

    async fn configure<'a>(&self, _: &mut Diagnostics, _: String, config: Config<'a>) -> Option<()> {
        let _ = self.0.set(text(&config.directory).into());
        Some(())
    }

    fn get_resources(&self, _: &mut Diagnostics) -> Option<HashMap<String, Box<dyn DynamicResource>>> {
        Some(map! { "note" => Notes(self.0.clone()) })
    }

    fn get_data_sources(&self, _: &mut Diagnostics) -> Option<HashMap<String, Box<dyn DynamicDataSource>>> {
        Some(map! {})
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    serve("note", NoteProvider(Folder::default())).await
}
