#pragma once

#include <string>

/// The language of workflow files, told to programs and people.  Both are made from the table that
/// the reader works by.
namespace headworks::spec {

/// A JSON Schema (draft-07) of workflow files, for editors: every key with its description, names
/// and bounds.  It refuses less than the reader does, and nothing that the reader takes.
std::string JsonSchema();

/// Every key as a page in Markdown: docs/workflow-reference.md.
std::string ReferencePage();

}  // namespace headworks::spec
