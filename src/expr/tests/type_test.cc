#include "headworks/expr/type.h"

#include <gtest/gtest.h>

#include "headworks/expr/environment.h"

namespace headworks::expr {
namespace {

using Kind = Type::Kind;

TEST(Type, IsSpeltAsDocumented) {
  EXPECT_EQ(Type().ToString(), "dyn");
  EXPECT_EQ(Type::List(Kind::kInt).ToString(), "list<int>");
  EXPECT_EQ(Type(Kind::kList).ToString(), "list");
  EXPECT_EQ(Type::Map(Kind::kString, Type::List(Kind::kBool)).ToString(),
            "map<string, list<bool>>");
  EXPECT_EQ(Type::Object({{"a", Kind::kInt}}, true).ToString(), "object");
  EXPECT_EQ(Type::Nullable(Kind::kTimestamp).ToString(), "timestamp or null");
  EXPECT_EQ(Type::Nullable(Type()).ToString(), "dyn");
}

TEST(Type, KnowsItsParts) {
  const Type object = Type::Object({{"a", Kind::kInt}}, false);
  EXPECT_FALSE(object.open());
  EXPECT_TRUE(Type(Kind::kObject).open());
  EXPECT_EQ(object.FindField("a")->type, Type(Kind::kInt));
  EXPECT_EQ(object.FindField("b"), nullptr);
  EXPECT_EQ(object.key(), Type(Kind::kString));
  EXPECT_TRUE(Type(Kind::kString).element().is_dyn());
  EXPECT_TRUE(Type::Nullable(Kind::kInt).nullable() && Type().nullable() && !object.nullable());
}

TEST(Type, EqualityLooksAtAllParts) {
  EXPECT_EQ(Type::List(Kind::kInt), Type::List(Kind::kInt));
  EXPECT_NE(Type::List(Kind::kInt), Type::List(Kind::kUint));
  EXPECT_NE(Type::List(Kind::kInt), Type(Kind::kList));
  EXPECT_NE(Type::Nullable(Kind::kInt), Type(Kind::kInt));
  EXPECT_NE(Type::Object({{"a", {}}}, true), Type::Object({{"a", {}}}, false));
  EXPECT_NE(Type::Object({{"a", {}}}, true), Type::Object({{"b", {}}}, true));
}

TEST(Environment, RefusesNamesThatCannotBeWritten) {
  Environment environment;
  EXPECT_TRUE(environment.Declare("params", {}));
  EXPECT_EQ(environment.Declare("params", {}).error().code, Code::kConflict);
  for (const char* name : {"", "1a", "a-b", "true", "in", "package", "ä"}) {
    EXPECT_EQ(environment.Declare(name, {}).error().code, Code::kInvalidArgument) << name;
  }
  EXPECT_NE(environment.Find("params"), nullptr);
  EXPECT_EQ(environment.Find("other"), nullptr);
}

TEST(Environment, FieldNamesMayBeReservedButNotDashed) {
  EXPECT_TRUE(IsFieldName("package") && IsFieldName("_a1"));
  EXPECT_FALSE(IsFieldName("a-b") || IsFieldName("") || IsFieldName("1") || IsFieldName("in"));
}

}  // namespace
}  // namespace headworks::expr
