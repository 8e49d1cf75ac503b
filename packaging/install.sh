#!/bin/sh
# Installs sysop from a release archive, after checking the archive's SHA-256 sum, and with --key the signature, too.
# Nothing is changed before both are right. Needs sh, tar, gzip, sha256sum, and curl or wget for a download.
set -eu

RELEASES=https://github.com/sysop/sysop/releases
# Public key of the releases; empty if they are not signed.
PUBLIC_KEY=''

usage() {
    cat <<'END'
Usage: sh install.sh [OPTIONS]

  --prefix DIR     Install below DIR (default: ~/.local)
  --version N      Install this version (default: the latest)
  --from DIR       Use the archive and SHA256SUMS in DIR instead of downloading
  --key KEY        Public key of minisign; a missing or wrong signature is then an error
  --help           Print this text
END
}

fail() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || echo "hint: $2" >&2
    exit 1
}

prefix=$HOME/.local version='' from='' key=$PUBLIC_KEY required=''
while [ $# -gt 0 ]; do
    case $1 in
    --help) usage; exit 0 ;;
    --prefix | --version | --from | --key) [ $# -ge 2 ] || fail "$1 needs a value" ;;
    *) fail "unknown option $1" 'see --help' ;;
    esac
    case $1 in
    --prefix) prefix=$2 ;;
    --version) version=$2 ;;
    --from) from=$2 ;;
    --key) key=$2 required=yes ;;
    esac
    shift 2
done

[ "$(uname -s)" = Linux ] || fail "sysop has archives for Linux only" 'build it from source'
case $(uname -m) in
x86_64 | amd64) machine=x86_64 ;;
aarch64 | arm64) machine=aarch64 ;;
*) fail "there is no archive for $(uname -m)" 'build it from source' ;;
esac

# The archive needs glibc 2.29. Other systems get a program without shared libraries.
kind=linux
case $(getconf GNU_LIBC_VERSION 2>/dev/null || true) in
'glibc 2.'[0-9] | 'glibc 2.1'[0-9] | 'glibc 2.2'[0-8]) kind=linux-static ;;
glibc*) ;;
*) kind=linux-static ;;
esac

fetch() {
    if command -v curl >/dev/null; then curl --fail --silent --show-error --location --output "$2" "$1"
    elif command -v wget >/dev/null; then wget --quiet --output-document "$2" "$1"
    else fail 'neither curl nor wget is installed'
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$from" ]; then
    [ -r "$from/SHA256SUMS" ] || fail "cannot read $from/SHA256SUMS" 'give --from the directory with the release files'
    cp "$from/SHA256SUMS" "$work/"
    [ ! -e "$from/SHA256SUMS.minisig" ] || cp "$from/SHA256SUMS.minisig" "$work/"
else
    base=$RELEASES/latest/download
    [ -z "$version" ] || base=$RELEASES/download/v$version
    fetch "$base/SHA256SUMS" "$work/SHA256SUMS" || fail "cannot download $base/SHA256SUMS"
    fetch "$base/SHA256SUMS.minisig" "$work/SHA256SUMS.minisig" 2>/dev/null || rm -f "$work/SHA256SUMS.minisig"
fi

if [ -n "$key" ]; then
    if command -v minisign >/dev/null && [ -e "$work/SHA256SUMS.minisig" ]; then
        minisign -V -q -P "$key" -m "$work/SHA256SUMS" >/dev/null || fail 'the signature of SHA256SUMS is wrong'
        echo 'Signature OK.'
    elif [ -n "$required" ]; then
        fail 'the signature cannot be checked' 'install minisign, and use a release with SHA256SUMS.minisig'
    fi
fi

# The archive of this machine, by the list of sums.
name=$(sed -n "s/^[0-9a-f]*  \(sysop-${version:-[0-9].*}-$machine-$kind\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
[ -n "$name" ] || fail "the release has no archive for $machine-$kind${version:+ in version $version}" 'build it from source'
if [ -n "$from" ]; then cp "$from/$name" "$work/"; else fetch "$base/$name" "$work/$name" || fail "cannot download $name"; fi
(cd "$work" && grep "  $name\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) || fail "the sum of $name is wrong" 'download it again'

mkdir -p "$prefix" "$work/content"
tar -xzf "$work/$name" -C "$work/content" --strip-components 1
for part in bin share; do
    [ -d "$work/content/$part" ] || continue
    mkdir -p "$prefix/$part"
    # -f replaces a program that is running.
    cp -Rf "$work/content/$part/." "$prefix/$part/"
done
echo "Installed $("$prefix/bin/sysop" --version) in $prefix."
case :$PATH: in
*:"$prefix/bin":*) echo "Start with: sysop" ;;
*) echo "Add $prefix/bin to your PATH, then start with: sysop" ;;
esac
