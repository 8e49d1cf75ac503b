# Homebrew formula. Not for production: sysop type-checks for macOS with `cargo xtask check-macos` (not part of the tests),
# and was never linked, run or tested there, nor was this formula. Among the known gaps: there is no sandbox, `ps -E` shows
# sysop's environment, and a stopped command can leave processes; docs/guide/install.md lists all. `cargo xtask dist` makes
# the source archive, which contains the built page and guide, and writes its sum.
class Sysop < Formula
  desc "AI operator for your terminal and your servers"
  homepage "https://github.com/sysop/sysop"
  url "https://github.com/sysop/sysop/releases/download/v@VERSION@/sysop-@VERSION@-source.tar.gz"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/sysop")
    generate_completions_from_executable(bin/"sysop", "completions")
    (man1/"sysop.1").write Utils.safe_popen_read(bin/"sysop", "man")
  end

  test do
    system bin/"sysop", "exec", "--model", "demo", "--approve", "never", "hello"
  end
end
