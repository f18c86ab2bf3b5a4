#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "headworks/artifact_store_files/file_artifact_store.h"
#include "headworks/base/json.h"
#include "headworks/model/artifact.h"
#include "tests/rig.h"
#include "transfers.h"

// Artifacts on their way to the store and from it, and who may say what of them.
namespace headworks::executor_queue {
namespace {

namespace fs = std::filesystem;
using artifact_store::Blob;
using artifact_store::Owner;
using model::Reason;
using worker_api::ArtifactPiece;
using worker_api::ArtifactTaken;

/// A store that counts how often it is asked for bytes.
class Counted final : public artifact_store::BlobStore {
 public:
  explicit Counted(BlobStore& inner) : inner_(inner) {}
  int reads = 0, opened = 0;
  Status settles;  // before that of the inner one

  Result<std::unique_ptr<artifact_store::Writer>> Begin(const Owner& owner) override {
    return inner_.Begin(owner);
  }
  Result<std::unique_ptr<artifact_store::Reader>> Open(const Owner& owner,
                                                       const Blob& blob) override {
    ++opened;
    HEADWORKS_ASSIGN(auto reader, inner_.Open(owner, blob));
    return std::make_unique<CountedReader>(*this, std::move(reader));
  }

  Status Settle(const Owner& owner) override {
    HEADWORKS_TRY(settles);
    return inner_.Settle(owner);
  }

 private:
  class CountedReader final : public artifact_store::Reader {
   public:
    CountedReader(Counted& counted, std::unique_ptr<Reader> inner)
        : counted_(counted), inner_(std::move(inner)) {}
    Result<std::size_t> Read(std::span<char> into) override {
      ++counted_.reads;
      return inner_->Read(into);
    }

   private:
    Counted& counted_;
    const std::unique_ptr<Reader> inner_;
  };

  BlobStore& inner_;
};

class ArtifactsTest : public QueueTest {
 protected:
  ArtifactsTest() {
    std::string folder = (fs::temp_directory_path() / "artifacts-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    store_ = artifact_store_files::NewFileArtifactStore(folder_);
  }
  ~ArtifactsTest() override { fs::remove_all(folder_); }

  static model::Task Leaves(std::map<std::string, std::string> artifacts = {{"f", "out/f"}}) {
    model::Task task = Plain();
    task.artifacts = std::move(artifacts);
    return task;
  }
  /// One that needs a task which leaves something.
  executor::Attempt Needs(model::Action action = model::ExecAction{{"work"}}) {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    model::Task leaves = Leaves(), needs = Plain();
    leaves.id = "leaves";
    needs.id = "needs";
    needs.needs = {"leaves"};
    needs.action = std::move(action);
    definition.tasks = {leaves, needs};
    auto attempt = Next(Plain());
    attempt.workflow = model::Workflow::Create(definition).value();
    attempt.key.task = *attempt.workflow->Find("needs");
    return attempt;
  }
  /// A worker that passes artifacts on.
  worker_api::Identity HirePasser(const std::string& name) {
    const worker_api::Identity who{TenantId("public"), name, "one"};
    Answer<worker_api::Welcome> welcome;
    queue_->Register({.who = who, .slots = {{"default", 100}}, .artifact_dir = "/var/needs"},
                     welcome.Done());
    EXPECT_TRUE(*welcome) << (*welcome).error().message;
    return who;
  }
  void DoAll() {
    while (queue_->RunNext()) {
    }
  }
  Answer<ArtifactTaken> Say(const std::string& token, const std::string& upload,
                            std::uint64_t offset, std::string bytes, std::string sha256 = "") {
    Answer<ArtifactTaken> taken;
    queue_->PutArtifact({token, upload, offset, std::move(bytes), std::move(sha256)}, taken.Done());
    return taken;
  }
  ArtifactTaken Put(const std::string& token, const std::string& upload, std::uint64_t offset,
                    std::string bytes, std::string sha256 = "") {
    const auto taken = Say(token, upload, offset, std::move(bytes), std::move(sha256));
    DoAll();
    EXPECT_TRUE(*taken) << (*taken).error().message;
    return *taken ? **taken : ArtifactTaken();
  }
  /// With the token that the answer brings from then on.
  Reply BeatOn(const worker_api::Identity& who, std::string& token) {
    const worker_api::Pulse pulse = Beat(who, {token})->pulses.at(0);
    if (!pulse.work_token.empty()) token = pulse.work_token;
    return pulse.reply;
  }
  /// A whole small file.
  Blob Store(const std::string& token, const std::string& bytes) {
    const auto taken = Put(token, "u", 0, bytes, Sha256Hex(bytes));
    EXPECT_TRUE(taken.stored);
    return {Sha256Hex(bytes), bytes.size()};
  }
  Result<ArtifactPiece> Get(const std::string& token, const std::string& sha256,
                            std::uint64_t offset, std::uint64_t most) {
    Answer<ArtifactPiece> piece;
    queue_->GetArtifact({token, sha256, offset, most}, piece.Done());
    DoAll();
    return *piece;
  }
  /// What the next job needs.
  void GiveNeeded(const Blob& blob) {
    given_.answer->artifacts = {{{.file = "f", .sha256 = blob.sha256, .size = blob.size},
                                 "leaves.f",
                                 "/var/needs/1-2/leaves/f/f"}};
  }
  std::size_t Incoming() {
    std::error_code none;
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_ + "/incoming", none), {}));
  }
  bool Has(const Blob& blob, const std::string& run = "run-1") {
    return store_->Open({TenantId("public"), RunId(run)}, blob).has_value();
  }

  std::string folder_;
};

TEST_F(ArtifactsTest, OnlyWhoeverPassesThemOnGetsATaskThatLeavesOrNeedsSome) {
  Make();
  const auto plain = Hire("plain");
  const auto leaves = Offer(Leaves());
  const auto needs = Needs();
  ASSERT_EQ(queue_->Offer(needs).disposition, Disposition::kDispatched);
  EXPECT_TRUE(Poll(plain)->assignments.empty());
  const auto why = std::get<executor::Pending>(Inspect(leaves));
  EXPECT_NE(why.reason.find("queue 'default' that passes artifacts on since"), std::string::npos)
      << why.reason;
  EXPECT_NE(why.reason.find("0 such workers"), std::string::npos) << why.reason;
  const auto passer = HirePasser("passer");
  EXPECT_EQ(Poll(passer, 0s, {{"default", 9}})->assignments.size(), 2U);
}

TEST_F(ArtifactsTest, AFunctionSeesNoneAndGoesToAnyWorker) {
  Make();
  const auto plain = Hire("plain");
  const auto attempt = Needs(model::FunctionAction{"f"});
  ASSERT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  const auto started = Begin(plain, Token(plain));
  EXPECT_EQ(started->reply, Reply::kGoOn);
  EXPECT_EQ(given_.artifact_dir, "");
}

TEST_F(ArtifactsTest, AJobSaysWhereItsWorkerPutsWhatItNeeds) {
  Make();
  const auto who = HirePasser("w");
  GiveNeeded({Sha256Hex("x"), 1});
  const auto attempt = Needs();
  ASSERT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  const auto started = Begin(who, Token(who));
  EXPECT_EQ(given_.artifact_dir, "/var/needs/1-1");
  ASSERT_EQ(started->job.resolved.artifacts.size(), 1U);
  EXPECT_EQ(started->job.resolved.artifacts[0].name, "leaves.f");
}

TEST_F(ArtifactsTest, WhatAnAttemptIsGivenHasABoundByNumberAndBytes) {
  Make();
  const auto who = HirePasser("w");
  const auto begin = [&](std::size_t files, std::uint64_t bytes) {
    given_.answer->artifacts.assign(
        files,
        {{.file = "f", .sha256 = Sha256Hex("x"), .size = bytes}, "leaves.f", "/var/needs/f"});
    const auto attempt = Needs();
    EXPECT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
    return Begin(who, Token(who))->reply;
  };
  EXPECT_EQ(begin(1'000, 1), Reply::kGoOn);
  EXPECT_EQ(begin(2, std::uint64_t{50} << 30), Reply::kGoOn);
  EXPECT_EQ(begin(1'001, 1), Reply::kStop);
  const auto many = judge_.heard.back().outcome;
  EXPECT_EQ(many.verdict, Verdict::kFailed);
  EXPECT_EQ(many.reason, Reason::kArtifact);
  EXPECT_NE(many.error.find("needs 1001 artifacts, and a worker is given at most 1000"),
            std::string::npos)
      << many.error;
  EXPECT_EQ(begin(2, (std::uint64_t{50} << 30) + 1), Reply::kStop);
  const auto large = judge_.heard.back().outcome;
  EXPECT_EQ(large.reason, Reason::kArtifact);
  EXPECT_NE(large.error.find("with leaves.f"), std::string::npos) << large.error;
}

TEST_F(ArtifactsTest, WhoeverWasForgottenMeanwhileGetsNoJobWithoutWhatItNeeds) {
  Make();
  const auto who = HirePasser("w");
  const auto attempt = Needs();
  ASSERT_EQ(queue_->Offer(attempt).disposition, Disposition::kDispatched);
  const auto token = Token(who);
  judge_.keeps = true;
  const auto late = Begin(who, token);
  Pass(61s);
  ASSERT_TRUE(queue_->Roster().empty());
  judge_.keeps = false;
  for (const auto& answer : std::exchange(judge_.kept, {})) answer();
  while (queue_->RunNext()) {
  }
  EXPECT_EQ(late->reply, Reply::kAskAgain);
  EXPECT_EQ(given_.asked, 0);
  HirePasser("w");
  EXPECT_EQ(Begin(who, token)->reply, Reply::kGoOn);
  EXPECT_EQ(given_.artifact_dir, "/var/needs/1-1");
}

TEST_F(ArtifactsTest, WhoeverDidNotSayThatItPassesThemOnIsNotLetIn) {
  Make();
  const auto passer = HirePasser("w"), plain = Hire("plain");
  const auto attempt = Offer(Leaves());
  EXPECT_EQ((*Begin(plain, Token(passer))).error().code, Code::kPermissionDenied);
}

TEST_F(ArtifactsTest, AFolderOfArtifactsIsAPath) {
  Make();
  const auto registered = [&](std::string path) {
    Answer<worker_api::Welcome> welcome;
    queue_->Register({.who = {TenantId("public"), "w", "one"},
                      .slots = {{"default", 1}},
                      .artifact_dir = std::move(path)},
                     welcome.Done());
    return (*welcome).has_value();
  };
  EXPECT_TRUE(registered("/" + std::string(worker_api::kMaxPathBytes - 1, 'x')));
  EXPECT_FALSE(registered("/" + std::string(worker_api::kMaxPathBytes, 'x')));
  EXPECT_FALSE(registered("needs"));
  EXPECT_FALSE(registered("/a\xff"));
}

TEST_F(ArtifactsTest, PiecesBecomeAFileWhateverIsSaidAgain) {
  Make();
  const auto token = Run(HirePasser("w"), Next(Leaves()));
  EXPECT_EQ(Put(token, "u", 0, "abc").have, 3U);
  EXPECT_EQ(Put(token, "u", 0, "abc").have, 3U) << "the answer was not heard";
  EXPECT_EQ(Put(token, "u", 4, "efg").have, 3U) << "there is a gap";
  EXPECT_EQ(Put(token, "u", 1, "bcdef").have, 6U) << "what is there is passed over";
  EXPECT_EQ(Put(token, "u", 2, "cd").have, 6U);
  const std::string sha256 = Sha256Hex("abcdefg");
  EXPECT_FALSE(Has({sha256, 7}));
  const auto last = Put(token, "u", 6, "g", sha256);
  EXPECT_TRUE(last.stored);
  EXPECT_EQ(last.have, 7U);
  EXPECT_TRUE(Has({sha256, 7}));
  EXPECT_TRUE(Put(token, "u", 6, "g", sha256).stored) << "the answer was not heard";
  EXPECT_FALSE(Put(token, "u", 6, "g", Sha256Hex("other")).stored);
  EXPECT_EQ(Incoming(), 0U);
  EXPECT_TRUE(Put(token, "empty", 0, "", Sha256Hex("")).stored);
}

// With leases of 60 s and graces of 10 s.
TEST_F(ArtifactsTest, FetchingIsNoTimeOfTheTasks) {
  Make();
  const auto who = HirePasser("w");
  const Blob blob = Store(Run(who, Next(Leaves())), "0123456789");
  GiveNeeded(blob);
  auto attempt = Needs();
  attempt.timeout = 5s;
  std::string token = Run(who, attempt);
  for (std::uint64_t at = 0; at < 10; ++at) {
    EXPECT_TRUE(Get(token, blob.sha256, at, 1));
    for (int i = 0; i < 2; ++i) {
      Pass(30s);
      EXPECT_EQ(BeatOn(who, token), Reply::kGoOn);
    }
  }
  // Its code began after the last one, a minute ago.
  Pass(15s);
  EXPECT_EQ(BeatOn(who, token), Reply::kStop);
  Pass(60s);
  ASSERT_EQ(judge_.ended.size(), 2U);  // the first one was never heard again
  EXPECT_EQ(judge_.ended[1].second.reason, model::Reason::kTimeout) << judge_.ended[1].second.error;
}

TEST_F(ArtifactsTest, WhoeverDoesNotGoOnFetchingHasLostTheAttempt) {
  Make();
  const auto who = HirePasser("w");
  const Blob blob = Store(Run(who, Next(Leaves())), "0123456789");
  GiveNeeded(blob);
  auto attempt = Needs();
  attempt.timeout = 5s;
  const auto token = Run(who, attempt);
  EXPECT_TRUE(Get(token, blob.sha256, 0, 1));
  for (int i = 0; i < 5; ++i) {
    Beat(who, {token});
    Pass(30s);
  }
  ASSERT_EQ(judge_.ended.size(), 2U);
  EXPECT_EQ(judge_.ended[1].second.verdict, Verdict::kLost);
  EXPECT_EQ(judge_.ended[1].second.error,
            "worker w is heard, and does not go on fetching artifacts");
}

TEST_F(ArtifactsTest, PassingOnIsNoTimeOfTheTasksAndWhoeverDoesNotGoOnHasLostTheAttempt) {
  Make();
  const auto who = HirePasser("w");
  auto attempt = Next(Leaves());
  attempt.timeout = 5s;
  std::string token = Run(who, attempt);
  std::uint64_t at = 0;
  const auto go_on = [&](Duration after) {
    for (; after > 30s; after -= 30s) {
      Pass(30s);
      EXPECT_EQ(BeatOn(who, token), Reply::kGoOn);
    }
    Pass(after);
  };
  for (; at < 5; ++at) {
    Put(token, "u", at, "x");
    go_on(5min - 1us);
  }
  Put(token, "u", at, "x");
  go_on(5min);
  EXPECT_EQ(Beat(who, {token})->pulses.at(0).reply, Reply::kStop);
  EXPECT_TRUE(judge_.ended.empty());
  Pass(60s);
  ASSERT_EQ(judge_.ended.size(), 1U);
  EXPECT_EQ(judge_.ended[0].second.verdict, Verdict::kLost);
  EXPECT_EQ(judge_.ended[0].second.error,
            "worker w is heard, and does not go on passing on artifacts");
}

TEST_F(ArtifactsTest, NobodyPassesOnForEver) {
  Make();
  const auto who = HirePasser("w");
  std::string token = Run(who, Next(Leaves()));
  const Duration began = clock_.Monotonic();
  for (std::uint64_t at = 0; judge_.ended.empty() && clock_.Monotonic() < began + 24h; ++at) {
    Say(token, "u", at, "x");
    DoAll();
    Pass(30s);
    BeatOn(who, token);
  }
  ASSERT_EQ(judge_.ended.size(), 1U);
  EXPECT_EQ(judge_.ended[0].second.verdict, Verdict::kLost);
  EXPECT_GT(clock_.Monotonic(), began + 12h);
  EXPECT_LT(clock_.Monotonic(), began + 12h + 10min);
}

TEST_F(ArtifactsTest, OneThatIsNotWhatItIsSaidToBeIsNone) {
  Make();
  const auto token = Run(HirePasser("w"), Next(Leaves()));
  const auto taken = Put(token, "u", 0, "abc", Sha256Hex("abd"));
  EXPECT_FALSE(taken.stored);
  ASSERT_TRUE(taken.failure);
  EXPECT_EQ(taken.failure->code, Code::kCorrupt);
  EXPECT_FALSE(Has({Sha256Hex("abd"), 3}));
  EXPECT_EQ(Put(token, "u", 3, "d").have, 0U) << "it is to begin anew";
}

TEST_F(ArtifactsTest, TheLargestIsTakenAndOneByteMoreIsNot) {
  Make({.max_artifact_bytes = 8});
  const auto token = Run(HirePasser("w"), Next(Leaves()));
  EXPECT_EQ(Put(token, "u", 0, "1234").have, 4U);
  EXPECT_TRUE(Put(token, "u", 4, "5678", Sha256Hex("12345678")).stored);
  EXPECT_EQ(Put(token, "v", 0, "1234").have, 4U);
  const auto taken = Put(token, "v", 4, "56789");
  ASSERT_TRUE(taken.failure);
  EXPECT_EQ(taken.failure->code, Code::kInvalidArgument);
  EXPECT_NE(taken.failure->message.find("more than 8 bytes"), std::string::npos);
  EXPECT_EQ(Incoming(), 0U);
}

TEST_F(ArtifactsTest, AnAttemptPassesOnOneFileAtATime) {
  Make();
  const auto token = Run(HirePasser("w"), Next(Leaves()));
  EXPECT_EQ(Put(token, "u", 0, "abc").have, 3U);
  EXPECT_EQ(Put(token, "v", 0, "xy").have, 2U);
  EXPECT_EQ(Incoming(), 1U);
  EXPECT_EQ(Put(token, "u", 3, "d").have, 0U) << "that one is gone";
  EXPECT_EQ(Put(token, "v", 2, "z", Sha256Hex("xyz")).have, 3U) << "and has disturbed no other";
}

TEST_F(ArtifactsTest, OnlyTheHolderIsHeard) {
  Make();
  const auto who = HirePasser("w");
  const auto token = Run(who, Next(Leaves()));
  auto other = Next(Leaves());
  other.run_id = RunId("run-2");
  other.key.run = RunNo(2);
  const auto others = Run(who, other);
  const Blob mine = Store(token, "mine");
  EXPECT_TRUE(Has(mine));
  EXPECT_FALSE(Has(mine, "run-2")) << "each writes to its own run";
  EXPECT_EQ((*Say("forged", "u", 0, "x")).error().code, Code::kPermissionDenied);
  EXPECT_EQ(Get("forged", mine.sha256, 0, 9).error().code, Code::kPermissionDenied);
  judge_.reply = Reply::kStop;
  EXPECT_EQ(Put(token, "u", 0, "late", Sha256Hex("late")).reply, Reply::kStop);
  EXPECT_EQ(Get(others, mine.sha256, 0, 9)->reply, Reply::kStop);
  EXPECT_FALSE(Has({Sha256Hex("late"), 4}));
  judge_.reply = Reply::kCancel;
  EXPECT_EQ(Put(token, "u", 0, "so", Sha256Hex("so")).reply, Reply::kCancel);
}

TEST_F(ArtifactsTest, APieceThatWaitedForTheEndIsNotStored) {
  Make();
  const auto token = Run(HirePasser("w"), Next(Leaves()));
  EXPECT_EQ(Put(token, "u", 0, "ab").have, 2U);
  const auto late = Say(token, "u", 2, "c", Sha256Hex("abc"));
  const auto whole = Say(token, "v", 0, "x", Sha256Hex("x"));
  EXPECT_TRUE(*Complete(token, {.verdict = Verdict::kFailed, .error = "no"}));
  DoAll();
  EXPECT_EQ(CodeOf(*late), Code::kUnavailable);
  EXPECT_EQ(CodeOf(*whole), Code::kUnavailable);
  EXPECT_FALSE(Has({Sha256Hex("x"), 1}));
  EXPECT_EQ(Incoming(), 0U);
}

TEST_F(ArtifactsTest, OnlyATaskThatLeavesArtifactsStoresAny) {
  Make();
  const auto token = Run(HirePasser("w"), Needs());
  const auto said = Say(token, "u", 0, "x", Sha256Hex("x"));
  DoAll();
  ASSERT_TRUE(said.came());
  EXPECT_EQ(CodeOf(*said), Code::kInvalidArgument);
  EXPECT_FALSE(Has({Sha256Hex("x"), 1}));
}

TEST_F(ArtifactsTest, AnAttemptStoresSixteenFilesForEachThatItsTaskLeaves) {
  Make();
  const auto token = Run(HirePasser("w"), Next(Leaves({{"a", "x"}, {"b", "y"}})));
  const auto say = [&](const std::string& bytes) {
    const auto said = Say(token, "u" + bytes, 0, bytes, Sha256Hex(bytes));
    DoAll();
    return *said;
  };
  for (int i = 0; i < 32; ++i) EXPECT_TRUE(say(std::to_string(i)));
  EXPECT_EQ(CodeOf(say("more")), Code::kInvalidArgument);
  EXPECT_FALSE(Has({Sha256Hex("more"), 4}));
  EXPECT_TRUE(say("0")->stored) << "which it has";
}

TEST_F(ArtifactsTest, WordsOutOfBoundsAreRefused) {
  Make();
  const auto token = Run(HirePasser("w"), Next(Leaves()));
  for (const std::string& upload : {std::string(), std::string("a/b"), std::string(65, 'u')})
    EXPECT_EQ((*Say(token, upload, 0, "x")).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Put(token, std::string(64, 'u'), 0, "x").have, 1U);
  for (const std::string& digest :
       {std::string(63, 'a'), std::string(64, 'G'), std::string("../x")})
    EXPECT_EQ((*Say(token, "u", 0, "x", digest)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Get(token, "../x", 0, 1).error().code, Code::kInvalidArgument);
}

TEST_F(ArtifactsTest, AnAttemptReadsWhatItsJobNamesFromAnywhere) {
  Make();
  const auto who = HirePasser("w");
  const auto token = Run(who, Next(Leaves()));
  const Blob named = Store(token, "0123456789"), unnamed = Store(token, "secret");
  GiveNeeded(named);
  const auto needs = Run(who, Needs());
  const auto read = [&](std::uint64_t offset, std::uint64_t most) {
    const auto piece = Get(needs, named.sha256, offset, most);
    EXPECT_TRUE(piece && !piece->failure);
    return std::pair(piece->bytes, piece->last);
  };
  EXPECT_EQ(read(0, 4), std::pair(std::string("0123"), false));
  EXPECT_EQ(read(4, 4), std::pair(std::string("4567"), false));
  EXPECT_EQ(read(4, 4), std::pair(std::string("4567"), false)) << "the answer was not heard";
  EXPECT_EQ(read(8, 4), std::pair(std::string("89"), true));
  EXPECT_EQ(read(8, 2), std::pair(std::string("89"), true));
  EXPECT_EQ(read(10, 4), std::pair(std::string(), true));
  EXPECT_EQ(Get(needs, named.sha256, 11, 4)->failure->code, Code::kNotFound);
  EXPECT_EQ(Get(needs, unnamed.sha256, 0, 4)->failure->code, Code::kNotFound);
  EXPECT_EQ(Get(token, named.sha256, 0, 4)->failure->code, Code::kNotFound) << "another's job";
}

/// A file of run-1, read by itself.
class ReadTest : public ArtifactsTest {
 protected:
  void Store(const std::string& bytes) {
    blob_ = {Sha256Hex(bytes), bytes.size()};
    const auto writer = store_->Begin(owner_).value();
    ASSERT_TRUE(writer->Append(bytes) && writer->Commit());
  }
  ArtifactPiece Read(Transfers& transfers, std::uint64_t offset, std::uint64_t most,
                     std::int64_t epoch = 1) {
    Answer<ArtifactPiece> piece;
    transfers.Get(
        {1, epoch}, owner_, {"", blob_.sha256, offset, most}, [this] { return blob_; },
        Reply::kGoOn, piece.Done());
    EXPECT_TRUE(transfers.RunNext());
    return **piece;
  }

  const Owner owner_{TenantId("public"), RunId("run-1")};
  Counted counted_{*store_};
  Blob blob_;
};

TEST_F(ReadTest, WhoeverReadsFarOffIsAnsweredInTimeAndGetsThere) {
  Store("0123456789");
  Transfers transfers({.max_skipped_bytes = 3}, &counted_, clock_);
  EXPECT_EQ(Read(transfers, 3, 1).bytes, "3") << "at the bound";
  EXPECT_EQ(Read(transfers, 0, 1).bytes, "0");
  EXPECT_EQ(Read(transfers, 9, 1).reply, Reply::kAskAgain);
  EXPECT_EQ(Read(transfers, 9, 1).reply, Reply::kAskAgain);
  const auto last = Read(transfers, 9, 1);
  EXPECT_EQ(last.bytes, "9");
  EXPECT_TRUE(last.last);
}

TEST_F(ReadTest, ThePieceWhoseAnswerWasLostIsThereWithoutAnotherLook) {
  Store("0123456789");
  Transfers transfers({.max_kept_bytes = 6}, &counted_, clock_);
  EXPECT_EQ(Read(transfers, 0, 3).bytes, "012");
  EXPECT_EQ(Read(transfers, 3, 3).bytes, "345");
  EXPECT_EQ(Read(transfers, 3, 3).bytes, "345");
  EXPECT_EQ(Read(transfers, 5, 9).bytes, "5") << "the rest of it";
  EXPECT_EQ(Read(transfers, 4, 1).bytes, "4");
  EXPECT_EQ(Read(transfers, 6, 2).bytes, "67");
  EXPECT_EQ(counted_.opened, 1);
  EXPECT_EQ(Read(transfers, 5, 1).bytes, "5") << "which is not kept any more";
  EXPECT_EQ(counted_.opened, 2);
}

TEST_F(ReadTest, WhatIsKeptOfAllFilesHasABound) {
  Store("0123456789");
  Transfers transfers({.max_kept_bytes = 6}, &counted_, clock_);
  for (const std::int64_t epoch : {1, 2, 3}) EXPECT_EQ(Read(transfers, 0, 3, epoch).bytes, "012");
  for (const std::int64_t epoch : {1, 2}) EXPECT_EQ(Read(transfers, 0, 3, epoch).bytes, "012");
  EXPECT_EQ(counted_.opened, 3);
  EXPECT_EQ(Read(transfers, 0, 3, 3).bytes, "012");
  EXPECT_EQ(counted_.opened, 4) << "one more is read again";
  transfers.End({1, 1});
  EXPECT_TRUE(transfers.RunNext());
  EXPECT_EQ(Read(transfers, 0, 3, 3).bytes, "012");
  EXPECT_EQ(Read(transfers, 0, 3, 3).bytes, "012");
  EXPECT_EQ(counted_.opened, 5) << "and kept once there is room";
}

TEST_F(ReadTest, ASuccessIsCheckedBeforePiecesThatWait) {
  Store("0123456789");
  std::optional<Status> there;
  Transfers transfers({}, &counted_, clock_);
  Answer<ArtifactTaken> taken;
  transfers.Put(
      {1, 1}, owner_, {"", "u", 0, "x", ""}, [] { return Status(); }, Reply::kGoOn,
      transfers.Take(1), taken.Done());
  transfers.Check(owner_, {{"f", blob_}}, transfers.Take(1),
                  [&](const Status& said) { there = said; });
  EXPECT_TRUE(transfers.RunNext());
  EXPECT_FALSE(taken.came());
  ASSERT_TRUE(there);
  EXPECT_TRUE(*there);
  EXPECT_TRUE(transfers.RunNext());
  EXPECT_TRUE(taken.came());
}

TEST_F(ReadTest, WhatMayNotBeDurableIsNotSaidToBeStored) {
  Store("abcd");  // by a last piece whose answer was lost
  Transfers transfers({}, &counted_, clock_);
  const auto said_again = [&] {
    Answer<ArtifactTaken> taken;
    transfers.Put(
        {1, 1}, owner_, {.upload = "u", .offset = 3, .bytes = "d", .sha256 = blob_.sha256},
        [] { return Status(); }, Reply::kGoOn, transfers.Take(1), taken.Done());
    EXPECT_TRUE(transfers.RunNext());
    return **taken;
  };
  counted_.settles = Error{Code::kUnavailable, "cannot sync"};
  const auto taken = said_again();
  EXPECT_FALSE(taken.stored);
  ASSERT_TRUE(taken.failure);
  EXPECT_EQ(taken.failure->code, Code::kUnavailable);
  counted_.settles = {};
  EXPECT_TRUE(said_again().stored);
}

TEST_F(ReadTest, WhereNoArtifactsAreKeptNoneIsRead) {
  Store("abcd");
  Transfers transfers({}, nullptr, clock_);
  const auto piece = Read(transfers, 0, 1);
  ASSERT_TRUE(piece.failure);
  EXPECT_EQ(piece.failure->code, Code::kUnavailable);
}

TEST_F(ReadTest, NoSuccessNamesWhatMayNotBeDurable) {
  Store("0123456789");
  Transfers transfers({}, &counted_, clock_);
  std::optional<Status> there;
  const auto check = [&] {
    transfers.Check(owner_, {{"f", blob_}}, transfers.Take(1),
                    [&](const Status& said) { there = said; });
    EXPECT_TRUE(transfers.RunNext());
    return there.value();
  };
  EXPECT_TRUE(check());
  counted_.settles = Error{Code::kUnavailable, "cannot sync"};
  EXPECT_EQ(check().error().code, Code::kUnavailable);
}

TEST_F(ReadTest, WhatIsPassedOverIsNotReadByTheBytesThatAreAskedFor) {
  Store(std::string(1 << 20, 'x'));
  Transfers transfers({}, &counted_, clock_);
  EXPECT_EQ(Read(transfers, blob_.size - 1, 1).bytes, "x");
  EXPECT_LE(counted_.reads, 8);
}

TEST_F(ArtifactsTest, WhatIsGoneOrDamagedIsSaidToBe) {
  Make();
  const auto who = HirePasser("w");
  const Blob blob = Store(Run(who, Next(Leaves())), "0123456789");
  GiveNeeded(blob);
  const auto needs = Run(who, Needs());
  const std::string file = folder_ + "/runs/public/run-1/" + blob.sha256;
  fs::permissions(file, fs::perms::owner_all);
  std::ofstream(file) << "012345678X";
  EXPECT_FALSE(Get(needs, blob.sha256, 0, 4)->failure);
  const auto damaged = *Get(needs, blob.sha256, 4, 9)->failure;
  EXPECT_EQ(damaged.code, Code::kCorrupt) << "before it is said to be whole";
  fs::remove(file);
  const auto gone = *Get(needs, blob.sha256, 0, 4)->failure;
  EXPECT_EQ(gone.code, Code::kNotFound);
  for (const auto& why : {damaged.message, gone.message})
    EXPECT_EQ(why.find(folder_), std::string::npos) << "the engine's disk is its own: " << why;
}

TEST_F(ArtifactsTest, AStoreThatFailsIsSaidToFailAndNotWhere) {
  Make();
  const auto who = HirePasser("w");
  const auto token = Run(who, Next(Leaves()));
  Store(token, "x");  // so that its folders are there
  const std::string incoming = folder_ + "/incoming";
  fs::remove_all(incoming);
  std::ofstream(incoming) << "in the way";
  const auto taken = Put(token, "u2", 0, "more");
  ASSERT_TRUE(taken.failure);
  EXPECT_EQ(taken.failure->code, Code::kUnavailable);
  EXPECT_EQ(taken.failure->message.find(folder_), std::string::npos) << taken.failure->message;
  EXPECT_EQ(taken.failure->message,
            "the engine's store fails: Not a directory; its log says where");
}

TEST_F(ArtifactsTest, TheNextEngineLooksUpWhatAJobNamed) {
  Make();
  const auto who = HirePasser("w");
  const auto leaves = Next(Leaves());
  const auto token = Run(who, leaves);
  const Blob blob = Store(token, "0123456789");
  EXPECT_EQ(Put(token, "half", 0, "abc").have, 3U);
  GiveNeeded(blob);
  auto attempt = Needs();
  const auto needs = Run(who, attempt);
  EXPECT_TRUE(queue_->Drain(0s));
  queue_.reset();
  EXPECT_EQ(Incoming(), 0U) << "half a file goes with its engine";
  Make();
  EXPECT_EQ(Get(needs, blob.sha256, 0, 9)->reply, Reply::kAskAgain) << "of which run is it?";
  attempt.holder = "w/one";
  auto held = leaves;
  held.holder = "w/one";
  Inspect(attempt);
  Inspect(held);
  EXPECT_EQ(Get(needs, blob.sha256, 3, 4)->bytes, "3456");
  EXPECT_EQ(Put(token, "half", 3, "d").have, 0U) << "it is to begin anew";
}

TEST_F(ArtifactsTest, OpenFilesHaveABoundAndATenantLeavesRoom) {
  Make({.max_open_artifacts = 4});
  const auto who = HirePasser("w");
  std::vector<executor::Attempt> attempts;
  std::vector<std::string> tokens;
  for (int i = 0; i < 5; ++i) {
    attempts.push_back(Next(Leaves()));
    tokens.push_back(Run(who, attempts.back()));
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Put(tokens[i], "u", 0, "x").have, 1U);
  EXPECT_EQ(Put(tokens[3], "u", 0, "x").reply, Reply::kAskAgain);
  EXPECT_EQ(Put(tokens[0], "u", 1, "y").have, 2U) << "whoever has begun goes on";
  queue_->Settled({&attempts[1].key, 1});
  EXPECT_EQ(Put(tokens[3], "u", 0, "x").have, 1U) << "what is over has left";
  EXPECT_EQ(Put(tokens[4], "u", 0, "x").reply, Reply::kAskAgain);
  for (int i = 0; i < 30; ++i) {
    Pass(10s);
    Beat(who, {tokens[0], tokens[2], tokens[3], tokens[4]});
    EXPECT_EQ(Put(tokens[0], "u", 1, "").have, 2U);
  }
  DoAll();
  EXPECT_EQ(Incoming(), 1U) << "what nobody goes on with is closed after five minutes";
  EXPECT_EQ(Put(tokens[4], "u", 0, "x").have, 1U);
}

TEST_F(ArtifactsTest, ASuccessHasAllThatItsTaskLeavesAndTheStoreHasIt) {
  Make();
  const auto who = HirePasser("w");
  const auto outcome = [&](const std::function<model::Artifacts(const std::string&)>& left) {
    const auto attempt = Next(Leaves({{"a", "x"}, {"b", "y"}}));
    const auto token = Run(who, attempt);
    const auto reply = Complete(token, {.output = model::WriteResult({R"({"n":1})", left(token)})});
    DoAll();
    queue_->Settled({&attempt.key, 1});
    EXPECT_TRUE(*reply);
    return judge_.heard.back().outcome;
  };
  const auto artifact = [](const Blob& blob) {
    return model::Artifact{.file = "x", .sha256 = blob.sha256, .size = blob.size};
  };
  const auto good = outcome([&](const std::string& token) -> model::Artifacts {
    return {{"a", artifact(Store(token, "a"))}, {"b", artifact(Store(token, "b"))}};
  });
  EXPECT_EQ(good.verdict, Verdict::kSucceeded) << good.error;
  const auto result = model::ReadResult(good.output).value();
  EXPECT_EQ(result.output, R"({"n":1})");
  EXPECT_EQ(result.artifacts.at("b").sha256, Sha256Hex("b"));

  const auto missing = outcome([&](const std::string& token) -> model::Artifacts {
    return {{"a", artifact(Store(token, "a"))}};
  });
  EXPECT_EQ(missing.verdict, Verdict::kFailed);
  EXPECT_EQ(missing.reason, Reason::kArtifact);
  EXPECT_NE(missing.error.find("artifact b (y)"), std::string::npos) << missing.error;
  EXPECT_EQ(missing.output, "");

  const auto strange = outcome([&](const std::string& token) -> model::Artifacts {
    const auto a = artifact(Store(token, "a"));
    return {{"a", a}, {"b", a}, {"c", a}};
  });
  EXPECT_EQ(strange.reason, Reason::kArtifact);

  const auto unstored = outcome([&](const std::string& token) -> model::Artifacts {
    return {{"a", artifact(Store(token, "a"))}, {"b", artifact({Sha256Hex("nowhere"), 7})}};
  });
  EXPECT_EQ(unstored.verdict, Verdict::kRetry);
  EXPECT_EQ(unstored.reason, Reason::kArtifact);
  const auto resized = outcome([&](const std::string& token) -> model::Artifacts {
    return {{"a", artifact(Store(token, "a"))}, {"b", artifact({Sha256Hex("a"), 2})}};
  });
  EXPECT_EQ(resized.reason, Reason::kArtifact) << "of that size it has none";
}

TEST_F(ArtifactsTest, BytesThatWaitHaveABound) {
  Transfers transfers({.max_waiting_bytes = 10}, store_.get(), clock_);
  auto large = transfers.Take(11);
  EXPECT_TRUE(large) << "what is too large by itself is taken where nothing waits";
  EXPECT_FALSE(transfers.Take(1));
  large.reset();
  const auto six = transfers.Take(6), four = transfers.Take(4);
  EXPECT_TRUE(six && four);
  EXPECT_FALSE(transfers.Take(1));
}

TEST_F(ArtifactsTest, WhoeverWaitsIsAnsweredWhereTheEngineGoes) {
  Answer<ArtifactTaken> taken;
  {
    Transfers transfers({}, store_.get(), clock_);
    transfers.Put(
        {1, 1}, {TenantId("public"), RunId("run-1")}, {"", "u", 0, "x", ""},
        [] { return Status(); }, Reply::kGoOn, transfers.Take(1), taken.Done());
  }
  ASSERT_TRUE(taken.came());
  EXPECT_EQ((*taken).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace headworks::executor_queue
