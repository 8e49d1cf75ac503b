//! `view_image`: reads an image file for a model that sees images.

use sysop_core::image::{ImageRef, check};
use sysop_core::outcome::{Outcome, Status};

use super::files::PathArguments;
use super::{CallContext, ToolError, ToolOutcome, Toolbox};

impl Toolbox {
    /// Checks an image and stores it as an artifact. The outcome refers to the artifact; its text names the image.
    pub(super) async fn view_image(&self, arguments: PathArguments, call: &CallContext<'_>) -> ToolOutcome {
        let path = self.path(&arguments.path, call).await?;
        let bytes = self.machine.read(&path, call.cancel).await?;
        let header = check(&bytes).map_err(|error| ToolError::Refused(format!("{path}: {error}")))?;
        let artifacts = self.artifacts.clone();
        let storing = tokio::task::spawn_blocking(move || artifacts.store_image(&bytes, header.format));
        let name = storing.await.map_err(std::io::Error::other).and_then(|stored| stored);
        let name = name.map_err(|error| ToolError::Refused(format!("cannot store the image: {error}")))?;
        let image = ImageRef::new(name, header, &path.to_string());
        Ok(Outcome { images: vec![image.clone()], ..Outcome::new(Status::Ok, image.to_string()) })
    }
}
