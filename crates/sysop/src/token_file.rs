//! File with a server's token. Used if standard output is not a terminal, because the output then ends up in
//! a journal or a log that others may read.

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::config::{create_private_folder, display_path, replace_private_file};
use crate::exit::CommandError;

/// Single-line file that only the user can read; exists while the server is running.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Link to the server's certificate, if it uses TLS.
    certificate: Option<Link>,
    usual: Option<UsualLink>,
    token: SecretString,
}

/// Link in the data directory to a file elsewhere, for the user's other programs.
#[derive(Debug)]
struct UsualLink {
    link: Link,
    /// Link to the server's certificate beside it, if the server uses TLS.
    certificate: Option<Link>,
}

/// Symbolic link of this server, which another server may have replaced.
#[derive(Debug)]
struct Link {
    path: PathBuf,
    target: PathBuf,
}

impl Link {
    fn create(path: PathBuf, target: PathBuf) -> io::Result<Self> {
        std::os::unix::fs::symlink(&target, &path)?;
        Ok(Self { path, target })
    }

    fn is_own(&self) -> bool {
        std::fs::read_link(&self.path).is_ok_and(|target| target == self.target)
    }

    fn remove_own(&self) {
        if self.is_own() {
            let _ = std::fs::remove_file(&self.path); // a link left behind leads nowhere
        }
    }
}

impl TokenFile {
    /// Writes the file, replacing one left behind by an earlier server. Fails if the file cannot be written.
    pub(crate) fn write(
        path: PathBuf,
        token: SecretString,
        certificate: Option<&Path>,
    ) -> Result<Self, CommandError> {
        let path = std::path::absolute(&path).unwrap_or(path);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let written = folder.map_or(Ok(()), create_private_folder);
        let line = format!("{}\n", token.expose_secret());
        written.and_then(|()| replace_private_file(&path, line.as_bytes())).map_err(|error| {
            CommandError::failed(format!(
                "cannot write the token file {} ({error}); choose another path with --token-file",
                display_path(&path)
            ))
        })?;
        let certificate = link_certificate(&path, certificate);
        Ok(Self { path, certificate, usual: None, token })
    }

    /// Links the file at its default path, so that `sysop approve` finds it elsewhere, too. Does nothing if that is its
    /// path. If the link cannot be made, only a log says so, because the server works without it.
    pub(crate) fn linked_at(mut self, usual: PathBuf, certificate: Option<&Path>) -> Self {
        if is_same_file(&self.path, &usual) {
            return self;
        }
        let folder = usual.parent().map_or(Ok(()), create_private_folder);
        let _ = std::fs::remove_file(&usual); // of an earlier server, if there is one
        match folder.and_then(|()| Link::create(usual, self.path.clone())) {
            Ok(link) => {
                let certificate = link_certificate(&link.path, certificate);
                self.usual = Some(UsualLink { link, certificate });
            }
            Err(error) => tracing::warn!(%error, "cannot link the token file; sysop approve needs SYSOP_URL"),
        }
        self
    }

    /// Default path of the file for a server at this address.
    pub(crate) fn usual_path(data: &Path, listen: SocketAddr) -> PathBuf {
        let address = listen.ip().to_string().replace(':', "_");
        data.join(format!("{PREFIX}{address}-{}{SUFFIX}", listen.port()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the token in the file. Does nothing if another server has replaced the file. Fails if the file cannot
    /// be written; it then has the earlier token.
    pub(crate) fn replace(&mut self, token: SecretString) -> io::Result<()> {
        if self.has_own_token() {
            replace_private_file(&self.path, format!("{}\n", token.expose_secret()).as_bytes())?;
            self.token = token;
        }
        Ok(())
    }

    /// Returns true if the file is there and has this server's token.
    pub(crate) fn has_own_token(&self) -> bool {
        let is_own = |line: String| line.trim_end() == self.token.expose_secret();
        std::fs::read_to_string(&self.path).is_ok_and(is_own)
    }
}

/// Returns true if both paths name the same file, and neither is a link to the other.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let inode = |path: &Path| path.symlink_metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    inode(one).is_some_and(|own| inode(other) == Some(own))
}

/// Creates a link to the server's certificate next to its token file, so that the user's other programs can
/// recognize the server. Without TLS, removes an earlier server's link.
fn link_certificate(token_file: &Path, certificate: Option<&Path>) -> Option<Link> {
    let link = certificate_of(token_file);
    // A file there is not ours: the token file may be beside the certificate.
    if std::fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink()) {
        let _ = std::fs::remove_file(&link); // if this fails, so does the creation
    }
    let certificate = std::path::absolute(certificate?).ok()?;
    Link::create(link, certificate)
        .inspect_err(
            |error| tracing::warn!(%error, "cannot link the certificate; sysop approve needs SYSOP_URL"),
        )
        .ok()
}

/// Returns the path of the symbolic link to a server's certificate. The link is beside the server's token file.
pub(crate) fn certificate_of(token_file: &Path) -> PathBuf {
    token_file.with_extension("cert")
}

const PREFIX: &str = "sysop-";
const SUFFIX: &str = ".token";

/// Returns the token files in the data directory, sorted by name.
pub(crate) fn token_files(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| address_of(path).is_some()).collect();
    files.sort();
    files
}

/// Reads the token in a file, or in the file that a link leads to. Fails if another user could have written or read it.
pub(crate) fn read_token(path: &Path) -> io::Result<SecretString> {
    let mut file = std::fs::File::open(path)?;
    let metadata = file.metadata()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_file() || !is_own || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::other("the token file is not readable by its owner alone"));
    }
    let mut line = String::new();
    file.read_to_string(&mut line)?;
    Ok(SecretString::from(line.trim_end().to_owned()))
}

pub(crate) fn address_of(path: &Path) -> Option<SocketAddr> {
    let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let (ip, port) = name.rsplit_once('-')?;
    let ip: IpAddr = ip.replace('_', ":").parse().ok()?;
    let here = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(_) | IpAddr::V6(_) => ip,
    };
    Some(SocketAddr::new(here, port.parse().ok()?))
}

impl Drop for TokenFile {
    /// Removes the file and the links, unless another server has replaced them.
    fn drop(&mut self) {
        if !self.has_own_token() {
            return;
        }
        // A file that cannot be removed is left behind, readable only by its user.
        let _ = std::fs::remove_file(&self.path);
        self.certificate.iter().for_each(Link::remove_own);
        // The certificate beside another server's link is that server's, even if it is the same certificate.
        if let Some(usual) = self.usual.as_ref().filter(|usual| usual.link.is_own()) {
            usual.certificate.iter().for_each(Link::remove_own);
            usual.link.remove_own();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use secrecy::ExposeSecret as _;

    use super::{TokenFile, address_of, certificate_of, read_token, token_files};

    #[test]
    fn a_token_file_is_private_and_removed_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/my.token");
        let first = TokenFile::write(path.clone(), "one".into(), Some(Path::new("/tls/a.pem"))).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = folder.path().join("below/my.cert");
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/tls/a.pem"));
        let mut second = TokenFile::write(path.clone(), "two".into(), None).unwrap();
        assert!(std::fs::read_link(&link).is_err(), "the second server uses no TLS");
        drop(first);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n", "it is another server's by now");
        second.replace("three".into()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(second);
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(folder.path().join("below")).unwrap().count(), 0);
    }

    #[test]
    fn a_token_file_elsewhere_is_found_by_a_link_that_ends_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let (path, data) = (folder.path().join("my.token"), folder.path().join("data"));
        let usual = TokenFile::usual_path(&data, "127.0.0.1:8765".parse().unwrap());
        let certificate = Path::new("/tls/a.pem");
        let file = TokenFile::write(path.clone(), "one".into(), Some(certificate)).unwrap();
        let file = file.linked_at(usual.clone(), Some(certificate));
        assert_eq!(token_files(&data), std::slice::from_ref(&usual));
        assert_eq!(read_token(&usual).unwrap().expose_secret(), "one");
        assert_eq!(std::fs::read_link(certificate_of(&usual)).unwrap(), certificate);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_token(&usual).is_err(), "others could have read it");
        drop(file);
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
        assert!(!path.exists());
    }

    #[test]
    fn a_token_file_at_its_default_path_by_another_name_is_not_linked_to_itself() {
        let folder = tempfile::tempdir().unwrap();
        let (data, other) = (folder.path().join("data"), folder.path().join("other"));
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&data, &other).unwrap();
        let usual = TokenFile::usual_path(&data, "127.0.0.1:8765".parse().unwrap());
        let name = usual.file_name().unwrap();
        for path in [other.join(name), data.join("../data").join(name)] {
            let file = TokenFile::write(path, "one".into(), None).unwrap().linked_at(usual.clone(), None);
            assert_eq!(read_token(&usual).unwrap().expose_secret(), "one");
            assert!(!usual.is_symlink());
            drop(file);
            assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_server_that_ends_leaves_the_links_of_the_next_server_on_its_port() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let usual = TokenFile::usual_path(&data, "127.0.0.1:8765".parse().unwrap());
        let certificate = Some(Path::new("/tls/a.pem"));
        let elsewhere = |name: &'static str| {
            let file = TokenFile::write(folder.path().join(name), name.into(), certificate).unwrap();
            file.linked_at(usual.clone(), certificate)
        };
        let first = elsewhere("first.token");
        let second = elsewhere("second.token");
        drop(first);
        assert_eq!(read_token(&usual).unwrap().expose_secret(), "second.token");
        assert!(certificate_of(&usual).is_symlink());
        let third = TokenFile::write(usual.clone(), "third".into(), certificate).unwrap();
        drop(second);
        assert_eq!(read_token(&usual).unwrap().expose_secret(), "third");
        assert!(certificate_of(&usual).is_symlink());
        drop(third);
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    }

    #[test]
    fn a_certificate_beside_the_token_file_is_no_link_to_remove() {
        let folder = tempfile::tempdir().unwrap();
        let certificate = folder.path().join("a.cert");
        std::fs::write(&certificate, "pem").unwrap();
        let file = TokenFile::write(folder.path().join("a.token"), "one".into(), Some(&certificate)).unwrap();
        assert_eq!(std::fs::read_to_string(&certificate).unwrap(), "pem");
        drop(file);
        assert_eq!(std::fs::read_to_string(&certificate).unwrap(), "pem");
    }

    #[test]
    fn a_token_file_tells_the_address_of_its_server() {
        let told =
            |listen: &str| address_of(&TokenFile::usual_path(Path::new("/d"), listen.parse().unwrap()));
        assert_eq!(told("127.0.0.1:8765"), "127.0.0.1:8765".parse().ok());
        assert_eq!(told("[::1]:80"), "[::1]:80".parse().ok());
        assert_eq!(told("0.0.0.0:8765"), "127.0.0.1:8765".parse().ok());
        assert_eq!(address_of(Path::new("/d/sysop.db")), None);
    }

    #[test]
    fn each_listener_has_its_own_token_file() {
        let path = |listen: &str| TokenFile::usual_path(Path::new("/d"), listen.parse().unwrap());
        assert_eq!(path("127.0.0.1:8765").to_str(), Some("/d/sysop-127.0.0.1-8765.token"));
        assert_eq!(path("[::1]:80").to_str(), Some("/d/sysop-__1-80.token"));
    }
}
