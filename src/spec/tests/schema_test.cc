#include "headworks/spec/schema.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "headworks/base/json.h"
#include "language.h"
#include "parse.h"

namespace headworks::spec {
namespace {

namespace json = boost::json;

json::object Schema() {
  const auto schema = ParseJson(JsonSchema(), {});
  EXPECT_TRUE(schema.has_value());
  return schema->as_object();
}

/// Every map that is named by a $ref, and how many there were.
int CheckReferences(const json::value& value, const json::object& definitions) {
  int count = 0;
  if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) count += CheckReferences(member.value(), definitions);
    if (const json::value* ref = object->if_contains("$ref")) {
      const std::string_view name = std::string_view(ref->as_string()).substr(14);
      EXPECT_TRUE(definitions.contains(name)) << name;
      ++count;
    }
  }
  if (const json::array* array = value.if_array())
    for (const json::value& element : *array) count += CheckReferences(element, definitions);
  return count;
}

TEST(JsonSchema, HasEveryKeyWithADescriptionAndNoOthers) {
  const json::object schema = Schema();
  EXPECT_EQ(schema.at("$schema"), "http://json-schema.org/draft-07/schema#");
  for (const KeyMap& map : Language()) {
    const json::object& described =
        map.name == "workflow" ? schema : schema.at("definitions").at(map.name).as_object();
    const json::object& properties = described.at("properties").as_object();
    const bool has_reserved = map.name == "workflow" || map.name == "task";
    EXPECT_EQ(properties.size(), map.keys.size() + (has_reserved ? ReservedKeys().size() : 0))
        << map.name;
    EXPECT_EQ(described.at("additionalProperties"), false) << map.name;
    EXPECT_TRUE(described.at("patternProperties").as_object().contains("^x-"));
    for (const Key* key : map.keys)
      EXPECT_NE(properties.at(key->name).at("description").as_string().find(key->text),
                json::string::npos);
  }
  EXPECT_EQ(schema.at("required"), (json::array{"version", "tasks"}));
  EXPECT_EQ(json::serialize(schema.at("definitions").at("task").at("oneOf")),
            R"([{"required":["run"]},{"required":["exec"]},{"required":["function"]}])");
  EXPECT_FALSE(
      schema.at("definitions").at("defaults").at("properties").as_object().contains("needs"));
  EXPECT_GT(CheckReferences(schema, schema.at("definitions").as_object()), 10);
}

TEST(JsonSchema, ReservedKeysAreRefusedInTheWordsOfTheValidator) {
  const json::object schema = Schema();
  const json::object& definitions = schema.at("definitions").as_object();
  ASSERT_FALSE(ReservedKeys().empty());
  for (const ReservedKey& key : ReservedKeys()) {
    const std::string at_workflow =
        MessageOf(fmt::format("version: 1\n{}: 1\ntasks: {{a: {{run: x}}}}\n", key.name));
    const std::string at_task =
        MessageOf(fmt::format("version: 1\ntasks: {{a: {{run: x, {}: 1}}}}\n", key.name));
    for (const auto& [properties, said] :
         {std::pair(schema.at("properties"), at_workflow),
          std::pair(definitions.at("task").at("properties"), at_task),
          std::pair(definitions.at("defaults").at("properties"), at_task)}) {
      const json::object& property = properties.at(key.name).as_object();
      EXPECT_EQ(property.at("not"), json::object{}) << "no value will do";
      const std::string text(property.at("description").as_string());
      EXPECT_TRUE(text.find("it comes with ") != std::string::npos &&
                  text.find("; until then ") != std::string::npos)
          << text;
      EXPECT_NE(said.find("HW1007 " + text + "\n"), std::string::npos) << text << "\n" << said;
      EXPECT_EQ(property.at("deprecationMessage"), property.at("description"));
    }
  }
}

TEST(ReferencePage, IsTheOneInTheDocumentation) {
  const std::string path = HEADWORKS_SOURCE_DIR "/docs/workflow-reference.md";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == ReferencePage())
      << "the table of keys has changed: write the page anew with\n  bin/workflow_reference > "
      << path;
}

}  // namespace
}  // namespace headworks::spec
