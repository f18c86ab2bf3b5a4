#include "discreet_store.h"

#include <utility>

namespace headworks::executor_queue {
namespace {

using artifact_store::Blob;
using artifact_store::Owner;
using artifact_store::Reader;
using artifact_store::Writer;

std::string WordsOf(const Error& error) {
  switch (error.code) {
    case Code::kNotFound:
      return "it is not in the engine's store (any more)";
    case Code::kCorrupt:
      return "what is in the engine's store is not what was stored";
    case Code::kInvalidArgument:
      return "the engine's store takes none that is so large";
    case Code::kConflict:
      return "the engine's store lost what had arrived; begin anew";
    default:
      break;
  }
  // What the system said of a file stands behind its name.
  const std::size_t why = error.message.rfind(": ");
  const std::string said = why == std::string::npos ? "" : error.message.substr(why);
  return "the engine's store fails" + (said.find('/') == std::string::npos ? said : "") +
         "; its log says where";
}

Error Tell(Logger& log, const Error& error) {
  // What is not there is asked for in vain by whoever says a word again.
  if (error.code != Code::kNotFound)
    log.Warning("the store of artifacts fails a worker", {{"error", error.message}});
  return {error.code, WordsOf(error)};
}

template <typename T>
Result<T> Discreet(Logger& log, Result<T> result) {
  if (result) return result;
  return Tell(log, result.error());
}

class DiscreetWriter final : public Writer {
 public:
  DiscreetWriter(std::unique_ptr<Writer> writer, Logger& log)
      : writer_(std::move(writer)), log_(log) {}
  Status Append(std::string_view bytes) override {
    const Status appended = writer_->Append(bytes);
    return appended ? appended : Status(Tell(log_, appended.error()));
  }
  Result<Blob> Commit() override { return Discreet(log_, writer_->Commit()); }

 private:
  const std::unique_ptr<Writer> writer_;
  Logger& log_;
};

class DiscreetReader final : public Reader {
 public:
  DiscreetReader(std::unique_ptr<Reader> reader, Logger& log)
      : reader_(std::move(reader)), log_(log) {}
  Result<std::size_t> Read(std::span<char> into) override {
    return Discreet(log_, reader_->Read(into));
  }

 private:
  const std::unique_ptr<Reader> reader_;
  Logger& log_;
};

}  // namespace

Result<std::unique_ptr<Writer>> DiscreetStore::Begin(const Owner& owner) {
  auto writer = store_.Begin(owner);
  if (!writer) return Tell(log_, writer.error());
  return std::make_unique<DiscreetWriter>(*std::move(writer), log_);
}

Result<std::unique_ptr<Reader>> DiscreetStore::Open(const Owner& owner, const Blob& blob) {
  auto reader = store_.Open(owner, blob);
  if (!reader) return Tell(log_, reader.error());
  return std::make_unique<DiscreetReader>(*std::move(reader), log_);
}

Status DiscreetStore::Settle(const Owner& owner) {
  const Status settled = store_.Settle(owner);
  return settled ? settled : Status(Tell(log_, settled.error()));
}

}  // namespace headworks::executor_queue
