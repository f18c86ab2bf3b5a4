#pragma once

#include <string>
#include <string_view>

#include "environment.h"
#include "headworks/base/result.h"

namespace headworks::executor_process {

/// Most bytes of one file.
inline constexpr std::size_t kMaxEnvFileBytes = std::size_t{1} << 20;

/// Adds what a file of NAME=value lines says to `into`, over what is there.
///
/// A line may begin with `export `; blank lines and lines that begin with # say nothing.  A value
/// ends at the end of its line or before ` #`, without the blanks around it.  In single quotes all
/// is taken as it stands; in double quotes \" \\ \$ \n \r \t are one character each.  Nothing is
/// expanded.  kNotFound: there is no such file; kInvalidArgument names file and line.
Status ReadEnvFile(const std::string& path, Environment& into);

/// The same for text at hand; `name` is for messages.
Status ParseEnvFile(std::string_view text, std::string_view name, Environment& into);

}  // namespace headworks::executor_process
