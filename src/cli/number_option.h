#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace headworks::cli {

/// A check for options that take a number; the library alone reads 010 as 8 and 0x4 as 4.
CLI::Validator NumberFrom(std::int64_t low, std::int64_t high);

}  // namespace headworks::cli
