//! The end of `sysop --help`: examples, exit codes, variables, files, and where the guide is.

pub(super) const TOP_HELP: &str = "\
Examples:
  sysop                              Open the TUI on this machine
  sysop why is the disk full         Start with a task
  sysop -- run the tests             Start with a task whose first word is a command
  sysop chat                         Chat without a full screen
  sysop exec --approve auto \"...\"    Run one task; ask only for dangerous commands
  sysop -H web1 \"...\"                Run on a remote host over ssh
  sysop exec -H @web --canary 1 \"...\"
                                     Run on all hosts tagged `web`, on one of
                                     them first
  sysop model get                    Download a model that runs on this machine
  sysop --model demo                 Try sysop without a model
  sysop doctor                       Check the configuration and environment

Exit codes:
  0    Success (individual commands may have failed)
  1    Task failed: model error, iteration limit, unreachable host, or failed
       routine
  2    Invalid usage or configuration
  3    Approval required, but no terminal available; the command did not run
  4    Stopped: rejected or stopped at a prompt, or by another client
  129  The terminal was closed (SIGHUP)
  130  Interrupted (Ctrl+C or Ctrl+\\)
  141  Standard output was closed by its reader
  143  Terminated (SIGTERM)

Environment:
  SYSOP_<KEY>                        Set a config key; `__` separates a table
                                     from its keys: SYSOP_MODEL,
                                     SYSOP_MAX_ITERATIONS,
                                     SYSOP_PROVIDERS__OPENAI__BASE_URL
  SYSOP_HOST                         Host to run on, same as --host
  OPENAI_API_KEY, GEMINI_API_KEY, GOOGLE_API_KEY, ANTHROPIC_API_KEY
                                     API keys
  LLM_BASE_URL, LLM_AUTH_TOKEN, LLM_DEFAULT_MODEL, LLM_SMALL_FAST_MODEL
                                     OpenAI-compatible server
  OLLAMA_HOST                        Address of Ollama
  NO_COLOR                           Disable colored output
  VISUAL, EDITOR, PAGER              Editor and pager

Files:
  ~/.config/sysop/config.toml        User config; see `sysop config path`
  .sysop.toml                        Workspace config, in the root directory

Guide:
  /help/ on the page of `sysop serve`, and docs/guide in
  https://github.com/sysop/sysop";
