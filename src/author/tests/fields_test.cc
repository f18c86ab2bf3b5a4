#include "headworks/author/fields.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shop {

struct Item {
  std::string name;
  std::uint8_t count = 0;
  bool operator==(const Item&) const = default;
};
HEADWORKS_FIELDS(Item, name, count);

struct Order {
  std::int64_t id = 0;
  bool paid = false;
  double price = 0;
  float weight = 0;
  std::string note;
  std::vector<Item> items;
  std::vector<bool> flags;
  std::map<std::string, std::vector<int>> sizes;
  std::optional<Item> gift;
  headworks::Json extra;
  bool operator==(const Order&) const = default;
};
HEADWORKS_FIELDS(Order, id, paid, price, weight, note, items, flags, sizes, gift, extra);

struct Nothing {};
HEADWORKS_FIELDS(Nothing);

}  // namespace shop

namespace headworks {
namespace {

constexpr std::string_view kOrder =
    R"({"id":-9223372036854775808,"paid":true,"price":1.5,"weight":0.25,"note":"\"ü\"\n",)"
    R"("items":[{"name":"a","count":255}],"flags":[true,false],"sizes":{"s":[1,2],"t":[]},)"
    R"("gift":null,"extra":{"any":[1,{"x":null}]}})";

shop::Order Sample() {
  shop::Order order;
  order.id = std::numeric_limits<std::int64_t>::min();
  order.paid = true;
  order.price = 1.5;
  order.weight = 0.25F;
  order.note = "\"ü\"\n";
  order.items = {{"a", 255}};
  order.flags = {true, false};
  order.sizes = {{"s", {1, 2}}, {"t", {}}};
  order.extra = Json(R"({"any":[1,{"x":null}]})");
  return order;
}

template <typename T>
std::string ErrorOf(std::string_view text) {
  const auto value = FromJson<T>(text);
  EXPECT_FALSE(value);
  EXPECT_EQ(value.error().code, Code::kInvalidArgument);
  return value.error().message;
}

TEST(Fields, WritesEveryKind) {
  const auto json = ToJson(Sample());
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->text, kOrder);
}

TEST(Fields, ReadsWhatItWrote) {
  const auto order = FromJson<shop::Order>(kOrder);
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(*order, Sample());
}

TEST(Fields, IgnoresWhatTheStructDoesNotHave) {
  const auto item = FromJson<shop::Item>(R"({"other":[1],"count":1.0,"name":"x"})");
  ASSERT_TRUE(item) << item.error().message;
  EXPECT_EQ(*item, (shop::Item{"x", 1}));
  EXPECT_TRUE(FromJson<shop::Nothing>("{}"));
  EXPECT_EQ(ToJson(shop::Nothing{})->text, "{}");
}

TEST(Fields, AnAbsentOptionalIsEmpty) {
  struct Holder {
    static std::string Without() {
      std::string text(kOrder);
      text.erase(text.find(R"("gift":null,)"), std::string_view(R"("gift":null,)").size());
      return text;
    }
  };
  const auto order = FromJson<shop::Order>(Holder::Without());
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_FALSE(order->gift);
}

TEST(Fields, NamesEveryFieldThatDoesNotFit) {
  EXPECT_EQ(ErrorOf<shop::Item>(R"({"name":7,"count":256})"),
            "name of JSON: expected a string, found an integer 7; "
            "count of JSON: expected an integer from 0 to 255, found an integer 256");
  EXPECT_EQ(ErrorOf<shop::Item>(R"({"count":-1,"name":""})"),
            "count of JSON: expected an integer from 0 to 255, found an integer -1");
  EXPECT_EQ(ErrorOf<shop::Item>(R"({"count":1.5,"name":""})"),
            "count of JSON: expected an integer from 0 to 255, found a number 1.5E0");
  EXPECT_EQ(ErrorOf<shop::Item>(R"({"name":"x"})"), "JSON: field \"count\" is missing");
  EXPECT_EQ(ErrorOf<shop::Item>("[]"), "JSON: expected an object, found an array");
  std::string nested(kOrder);
  nested.replace(nested.find(R"("count":255)"), 11, R"("count":"x")");
  EXPECT_EQ(ErrorOf<shop::Order>(nested),
            "items[0].count of JSON: expected an integer from 0 to 255, found a string \"x\"");
}

TEST(Fields, SaysAtMostTenFaults) {
  const std::string error = ErrorOf<std::vector<int>>(R"(["","","","","","","","","","","",""])");
  EXPECT_NE(error.find("[9] of JSON"), std::string::npos) << error;
  EXPECT_EQ(error.find("[10] of JSON"), std::string::npos) << error;
  EXPECT_TRUE(error.ends_with("; and 2 more")) << error;
}

TEST(Fields, RefusesWhatIsNoJson) {
  EXPECT_NE(ErrorOf<shop::Item>("{").find("not JSON"), std::string::npos);
  EXPECT_NE(ErrorOf<shop::Item>(R"({"name":"a","name":"b","count":1})").find("twice"),
            std::string::npos);
}

TEST(Fields, RefusesToWriteWhatHasNoJsonForm) {
  shop::Order order = Sample();
  order.price = std::nan("");
  order.items[0].name = "\xff";
  order.sizes = {{"\xfe", {}}};
  order.extra = Json("{oops}");
  const auto json = ToJson(order);
  ASSERT_FALSE(json);
  for (const char* part :
       {"price: nan has no JSON form", "items[0].name: text is not UTF-8 from byte 0 on", "sizes.",
        "extra: not JSON"})
    EXPECT_NE(json.error().message.find(part), std::string::npos) << json.error().message;
}

TEST(Fields, BoundsOfIntegersAreTaken) {
  EXPECT_EQ(*FromJson<std::uint64_t>("18446744073709551615"),
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(*FromJson<std::int8_t>("-128"), -128);
  EXPECT_FALSE(FromJson<std::int8_t>("-129"));
  EXPECT_FALSE(FromJson<std::int64_t>("9223372036854775808"));
  EXPECT_FALSE(FromJson<std::uint64_t>("18446744073709551616"));
  EXPECT_EQ(ToJson(std::numeric_limits<std::uint64_t>::max())->text, "18446744073709551615");
}

TEST(Fields, DoublesReadBackEqual) {
  for (const double value : {0.1, 1e300, -2.5e-10, 3.0, 9007199254740993.0}) {
    const auto text = ToJson(value);
    ASSERT_TRUE(text);
    EXPECT_EQ(*FromJson<double>(text->text), value) << text->text;
  }
}

}  // namespace
}  // namespace headworks
