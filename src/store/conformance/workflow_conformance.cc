#include "headworks/store_conformance/harness.h"
#include "headworks/store_conformance/samples.h"

namespace headworks::store::conformance {
namespace {

WorkflowRecord Record(std::string workflow, std::string version, const TenantId& tenant = kTenant) {
  return {
      {tenant.value, "data", std::move(workflow)}, std::move(version), "/etc/w.yaml", true, kT0};
}

TEST_P(Conformance, VersionIsImmutable) {
  EXPECT_CODE(workflows().GetVersion(kTenant, "v1"), Code::kNotFound);
  EXPECT_OK(workflows().PutVersion(kTenant, "v1", "{\"a\":1}", kT0));
  EXPECT_OK(workflows().PutVersion(kTenant, "v1", "{\"a\":2}", kT0));
  harness_->CrashAndReopen();
  EXPECT_EQ(Text(workflows().GetVersion(kTenant, "v1")), "'{\"a\":1}'");
  EXPECT_CODE(workflows().GetVersion(kOtherTenant, "v1"), Code::kNotFound);
  EXPECT_CODE(workflows().PutVersion(kTenant, "", "{}", kT0), Code::kInvalidArgument);
  EXPECT_CODE(workflows().PutVersion(TenantId(), "v", "{}", kT0), Code::kInvalidArgument);
}

TEST_P(Conformance, NamePointsAtAKnownVersionOfItsTenantAndMoves) {
  WorkflowRecord record = Record("etl", "v1");
  EXPECT_CODE(workflows().Register(record), Code::kNotFound);
  EXPECT_OK(workflows().PutVersion(kOtherTenant, "v1", "{}", kT0));
  EXPECT_CODE(workflows().Register(record), Code::kNotFound);
  EXPECT_OK(workflows().PutVersion(kTenant, "v1", "{}", kT0));
  EXPECT_OK(workflows().PutVersion(kTenant, "v2", "{}", kT0));
  EXPECT_OK(workflows().Register(record));
  EXPECT_EQ(Text(workflows().Get(record.name)), Text(record));
  record.version = "v2";
  record.source.clear();
  record.enabled = false;
  record.registered_at = kT0 + Duration(1);
  EXPECT_OK(workflows().Register(record));
  harness_->CrashAndReopen();
  EXPECT_EQ(Text(workflows().Get(record.name)), Text(record));
  EXPECT_CODE(workflows().Get({"zeta", "data", "etl"}), Code::kNotFound);
  EXPECT_CODE(workflows().Get({"", "data", "etl"}), Code::kInvalidArgument);
}

TEST_P(Conformance, WorkflowsAreListedByNameAndTenant) {
  for (const TenantId& tenant : {kTenant, kOtherTenant}) {
    EXPECT_OK(workflows().PutVersion(tenant, "v", "{}", kT0));
  }
  WorkflowRecord early = Record("z", "v");
  early.name.package = "aaa";
  for (const auto& record :
       {Record("b", "v"), Record("a", "v"), early, Record("a", "v", kOtherTenant)}) {
    EXPECT_OK(workflows().Register(record));
  }
  EXPECT_EQ(Text(workflows().List(kTenant)),
            Text(std::vector{early, Record("a", "v"), Record("b", "v")}));
  EXPECT_EQ(workflows().List(kOtherTenant)->size(), 1U);
  EXPECT_EQ(workflows().List(TenantId("nobody"))->size(), 0U);
  EXPECT_CODE(workflows().List(TenantId()), Code::kInvalidArgument);
}

TEST_P(Conformance, WorkflowIsSwitchedAndForgotten) {
  const WorkflowRecord record = Record("etl", "v");
  EXPECT_CODE(workflows().SetEnabled(record.name, false), Code::kNotFound);
  EXPECT_CODE(workflows().Remove(record.name), Code::kNotFound);
  EXPECT_OK(workflows().PutVersion(kTenant, "v", "{}", kT0));
  EXPECT_OK(workflows().Register(record));
  EXPECT_OK(workflows().SetEnabled(record.name, false));
  EXPECT_FALSE(workflows().Get(record.name)->enabled);
  EXPECT_OK(workflows().SetEnabled(record.name, true));
  EXPECT_TRUE(workflows().Get(record.name)->enabled);
  EXPECT_CODE(workflows().Remove({"zeta", "data", "etl"}), Code::kNotFound);
  EXPECT_OK(workflows().Remove(record.name));
  EXPECT_CODE(workflows().Get(record.name), Code::kNotFound);
  EXPECT_OK(workflows().GetVersion(kTenant, "v"));
}

}  // namespace
}  // namespace headworks::store::conformance
