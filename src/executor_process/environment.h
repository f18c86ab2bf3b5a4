#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "attempt_files.h"
#include "headworks/executor/executor.h"

namespace headworks::executor_process {

using Environment = std::map<std::string, std::string>;

/// Whether "NAME=value" is a credential of Headworks' own (HEADWORKS_*_TOKEN), which no task and no
/// supervisor is to see.
bool IsSecret(std::string_view variable);

/// The environment of this process, without its secrets.
Environment OwnEnvironment();

/// All that a task sees of the environment, and nothing else: PATH, HOME, LANG and TZ of `own`,
/// then the task's `inherit_env` from `own`, the workflow's `env`, what the task's env_files say,
/// its `env` (all as in `texts`; the files are absolute), and what Headworks tells it (HEADWORKS_*,
/// which nothing before can replace).  An error is about an env_file.
Result<Environment> TaskEnvironment(const executor::Attempt& attempt,
                                    const executor::Rendered& texts, const AttemptFiles& files,
                                    const Environment& own);

/// "NAME=value" each.
std::vector<std::string> ToStrings(const Environment& environment);

}  // namespace headworks::executor_process
