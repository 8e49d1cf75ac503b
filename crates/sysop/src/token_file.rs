//! File with a server's token. Used if standard output is not a terminal, because the output then ends up in
//! a journal or a log that others may read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::config::{create_private_folder, display_path, replace_private_file};
use crate::exit::CommandError;

/// Single-line file that only the user can read; exists while the server is running.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Link to the server's certificate, if it uses TLS.
    certificate: Option<PathBuf>,
    token: SecretString,
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
        Ok(Self { path, certificate, token })
    }

    /// Default path of the file for a server at this address.
    pub(crate) fn usual_path(data: &Path, listen: SocketAddr) -> PathBuf {
        let address = listen.ip().to_string().replace(':', "_");
        data.join(format!("{PREFIX}{address}-{}{SUFFIX}", listen.port()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Creates a link to the server's certificate next to its token file, so that the user's other programs can
/// recognize the server. Without TLS, removes an earlier server's link.
fn link_certificate(token_file: &Path, certificate: Option<&Path>) -> Option<PathBuf> {
    let link = certificate_of(token_file);
    let _ = std::fs::remove_file(&link); // usually, there is none
    let certificate = std::path::absolute(certificate?).ok()?;
    let linked = std::os::unix::fs::symlink(certificate, &link);
    linked
        .inspect_err(
            |error| tracing::warn!(%error, "cannot link the certificate; sysop approve needs SYSOP_URL"),
        )
        .ok()?;
    Some(link)
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
    /// Removes the file, unless another server has replaced it.
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|line| line.trim_end() == self.token.expose_secret())
        {
            // A file that cannot be removed is left behind, readable only by its user.
            let _ = std::fs::remove_file(&self.path);
            self.certificate.iter().for_each(|link| drop(std::fs::remove_file(link)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::{TokenFile, address_of};

    #[test]
    fn a_token_file_is_private_and_removed_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/my.token");
        let first = TokenFile::write(path.clone(), "one".into(), Some(Path::new("/tls/a.pem"))).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = folder.path().join("below/my.cert");
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/tls/a.pem"));
        let second = TokenFile::write(path.clone(), "two".into(), None).unwrap();
        assert!(std::fs::read_link(&link).is_err(), "the second server uses no TLS");
        drop(first);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n", "it is another server's by now");
        drop(second);
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(folder.path().join("below")).unwrap().count(), 0);
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
