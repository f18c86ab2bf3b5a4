#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "commands.h"
#include "output.h"
#include "pool_view.h"
#include "records.h"

namespace headworks::cli {
namespace json = boost::json;
namespace {

std::string DeclaredBy(const PoolView& pool) {
  return !pool.limit ? "nobody" : pool.by_configuration ? "configuration" : "pool set";
}

json::object PoolJson(const PoolView& pool) {
  json::array holders;
  for (const PermitHolder& holder : pool.holders)
    holders.emplace_back(json::object{{"run", holder.run.value},
                                      {"task", holder.task},
                                      {"permits", holder.permits},
                                      {"since", JsonTime(holder.since)}});
  return {{"pool", pool.name},
          {"limit", pool.limit ? json::value(*pool.limit) : json::value(nullptr)},
          {"held", pool.held},
          {"declared_by", DeclaredBy(pool)},
          {"holders", std::move(holders)}};
}

/// The store whose pools these commands are about.
Result<std::unique_ptr<Runner>> OpenPools(const Context& context,
                                          NoStore no_store = NoStore::kRefuse) {
  const auto& origins = context.loaded.origins;
  if (std::ranges::find(origins, "--pools") != origins.end())
    return Error{Code::kInvalidArgument,
                 "--pools declares pools for the engine that starts with it (`run`, `up`), and "
                 "`headworks pool` is about those of the store; leave it out, or declare a pool "
                 "with `headworks pool set NAME N`"};
  return AttachRunner(context, no_store);
}

/// A table shows how many permits are held, and not by which task.
HolderNames NamesFor(const Context& context) {
  return context.wants_table() ? HolderNames::kNo : HolderNames::kYes;
}

Result<PoolView> FindPool(const Context& context, Runner& runner, const std::string& name,
                          HolderNames names) {
  HEADWORKS_ASSIGN(auto pools, ReadPools(context, runner, names));
  const auto pool = std::ranges::find(pools, name, &PoolView::name);
  if (pool == pools.end())
    return Error{Code::kNotFound, fmt::format("there is no pool '{}'; `headworks pool list` shows "
                                              "all of {}",
                                              name, StoreName(context.settings().runner))};
  return std::move(*pool);
}

}  // namespace

Result<Exit> SetPool(const Context& context, const std::string& name, int limit) {
  HEADWORKS_ASSIGN(const auto runner, OpenPools(context, NoStore::kCreate));
  HEADWORKS_TRY(runner->limits().SetPool(context.tenant(), name, limit, context.clock.Now()));
  HEADWORKS_ASSIGN(const PoolView pool, FindPool(context, *runner, name, NamesFor(context)));
  if (context.wants_table())
    Print(fmt::format("pool {} has {} permits; {} are held\n", name, limit, pool.held));
  else
    PrintValue(context.settings().output, PoolJson(pool));
  return Exit::kOk;
}

Result<Exit> DeletePool(const Context& context, const std::string& name) {
  HEADWORKS_ASSIGN(const auto runner, OpenPools(context));
  HEADWORKS_ASSIGN(const PoolView pool, FindPool(context, *runner, name, NamesFor(context)));
  HEADWORKS_TRY(runner->limits().DeletePool(context.tenant(), name));
  if (context.wants_table())
    Print(fmt::format("deleted pool {}\n", name));
  else
    PrintValue(context.settings().output, PoolJson(pool));
  return Exit::kOk;
}

Result<Exit> ListPools(const Context& context) {
  HEADWORKS_ASSIGN(const auto runner, OpenPools(context));
  HEADWORKS_ASSIGN(const auto pools, ReadPools(context, *runner, NamesFor(context)));
  json::array list;
  Table table({"POOL", "LIMIT", "HELD", "DECLARED BY"});
  for (const PoolView& pool : pools) {
    list.emplace_back(PoolJson(pool));
    table.AddRow({pool.name, pool.limit ? fmt::format("{}", *pool.limit) : "-",
                  fmt::format("{}", pool.held), DeclaredBy(pool)});
  }
  if (!context.wants_table())
    PrintValue(context.settings().output, list);
  else if (table.empty())
    Note(fmt::format("no pools in {}", StoreName(context.settings().runner)));
  else
    Print(table.Render());
  return Exit::kOk;
}

Result<Exit> ShowPool(const Context& context, const std::string& name) {
  HEADWORKS_ASSIGN(const auto runner, OpenPools(context));
  HEADWORKS_ASSIGN(const PoolView pool, FindPool(context, *runner, name, HolderNames::kYes));
  if (!context.wants_table()) {
    PrintValue(context.settings().output, PoolJson(pool));
    return Exit::kOk;
  }
  Print(fmt::format("pool {}: {} of {} permits are held; declared by {}\n", name, pool.held,
                    pool.limit ? fmt::format("{}", *pool.limit) : "no", DeclaredBy(pool)));
  Table table({"RUN", "TASK", "PERMITS", "SINCE"});
  for (const PermitHolder& holder : pool.holders)
    table.AddRow({fmt::format("{}", holder.run.value), holder.task.empty() ? "?" : holder.task,
                  fmt::format("{}", holder.permits), FormatInstant(holder.since).substr(0, 19)});
  if (!table.empty()) Print(table.Render());
  return Exit::kOk;
}

}  // namespace headworks::cli
