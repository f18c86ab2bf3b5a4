#pragma once

#include <span>
#include <string_view>

namespace headworks::cli {

/// A commented workflow to start from: templates/NAME.yaml, as text in the program.
struct Template {
  std::string_view name;
  std::string_view text;
};

std::span<const Template> Templates();

}  // namespace headworks::cli
