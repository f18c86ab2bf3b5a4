#pragma once

/// The command line: parses it, runs the command through the Runner, prints.
namespace headworks::cli {

/// Runs `headworks ARGUMENTS` and returns its exit code.  No exception leaves it.
/// `environment` as main gets it.  One call at a time: it installs signal handlers.
int Main(int argc, const char* const* argv, const char* const* environment);

}  // namespace headworks::cli
