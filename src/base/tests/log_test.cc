#include "headworks/base/log.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <vector>

#include "headworks/base/json.h"

namespace headworks {
namespace {

using Format = StderrLogger::Format;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_NE(end, std::string::npos) << "the last line has no end";
    lines.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

/// Values that would end a line, a string or a field early.
const std::string kAwkward[] = {
    "",           "a b",        "\"",           "\\",
    "x=\"y\" z=", "line\nline", "\r\t\x01\x7f", "\xc3\xa9\xf0\x9f\x98\x80",
    "{\"a\":1}"};

TEST(Log, EveryJsonLineReadsBack) {
  testing::internal::CaptureStderr();
  StderrLogger logger(Format::kJson, LogLevel::kDebug);
  for (const std::string& value : kAwkward) logger.Warning("a message", {{"key", value}});
  const auto lines = Lines(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), std::size(kAwkward));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = ParseJsonObject(lines[i], "line", {});
    ASSERT_TRUE(line) << lines[i] << line.error().message;
    EXPECT_EQ(line->at("level"), "warning");
    EXPECT_EQ(line->at("message"), "a message");
    EXPECT_EQ(line->at("key"), kAwkward[i].c_str());
    EXPECT_TRUE(line->at("time").is_string());
  }
}

TEST(Log, TextValuesAreQuotedSoThatLinesStayLines) {
  testing::internal::CaptureStderr();
  StderrLogger logger(Format::kText, LogLevel::kDebug);
  for (const std::string& value : kAwkward) logger.Error("a message", {{"key", value}});
  const auto lines = Lines(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), std::size(kAwkward));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string begin = " error   a message key=";
    const std::size_t at = lines[i].find(begin);
    ASSERT_NE(at, std::string::npos) << lines[i];
    const auto value = ParseJson(lines[i].substr(at + begin.size()), {});
    ASSERT_TRUE(value) << lines[i];
    EXPECT_EQ(*value, kAwkward[i].c_str());
  }
}

TEST(Log, BrokenUtf8IsMended) {
  testing::internal::CaptureStderr();
  StderrLogger(Format::kJson, LogLevel::kDebug)
      .Error("m", {{"key",
                    "a\xff"
                    "b"}});
  const auto lines = Lines(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 1U);
  const auto line = ParseJsonObject(lines[0], "line", {});
  ASSERT_TRUE(line) << lines[0];
  EXPECT_EQ(line->at("key"),
            "a\xef\xbf\xbd"
            "b");
}

TEST(Log, LinesBelowTheLevelAreNotWrittenAndNotWanted) {
  testing::internal::CaptureStderr();
  StderrLogger logger(Format::kText, LogLevel::kWarning);
  logger.Debug("no");
  logger.Info("no");
  logger.Warning("yes");
  EXPECT_EQ(Lines(testing::internal::GetCapturedStderr()).size(), 1U);
  EXPECT_FALSE(logger.Wants(LogLevel::kInfo));
  EXPECT_TRUE(logger.Wants(LogLevel::kWarning));
  EXPECT_FALSE(NullLogger().Wants(LogLevel::kError));
}

TEST(Log, ScopeComesBeforeTheLinesOwnFields) {
  testing::internal::CaptureStderr();
  StderrLogger logger(Format::kText, LogLevel::kInfo);
  ScopedLogger outer(logger, {{"a", "1"}});
  ScopedLogger inner(outer, {{"b", "2"}});
  inner.Info("m", {{"c", "3"}});
  inner.Debug("not wanted");
  const auto lines = Lines(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].ends_with(R"( m a="1" b="2" c="3")")) << lines[0];
  EXPECT_FALSE(inner.Wants(LogLevel::kDebug));
}

TEST(Log, WhoDoesNotReadItHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int own = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  const std::string long_text(10'000, 'x');
  StderrLogger logger(Format::kText, LogLevel::kDebug);
  for (int i = 0; i < 1'000; ++i) logger.Info(i % 2 == 0 ? "short" : long_text);
  std::string text;
  const auto drain = [&](std::size_t least) {
    std::string part(1 << 20, '\0');
    for (std::size_t got = 0; got < least;) {
      const ssize_t n = read(ends[0], part.data(), part.size());
      ASSERT_GT(n, 0);
      got += static_cast<std::size_t>(n);
      text.append(part, 0, static_cast<std::size_t>(n));
    }
  };
  int held = 0;
  ASSERT_EQ(ioctl(ends[0], FIONREAD, &held), 0);
  drain(static_cast<std::size_t>(held));
  logger.Info("after");
  ASSERT_EQ(dup2(own, STDERR_FILENO), STDERR_FILENO);
  close(own);
  close(ends[1]);
  while (text.find("after\n") == std::string::npos) drain(1);
  close(ends[0]);
  const auto lines = Lines(text);
  const std::size_t note = lines.size() - 2;
  const std::string says = "warning nobody read this log; lines were lost lines=\"";
  ASSERT_NE(lines[note].find(says), std::string::npos) << lines[note];
  const auto lost = std::stoul(lines[note].substr(lines[note].find(says) + says.size()));
  EXPECT_GT(lost, 900U);
  // The last one may be there in part.
  EXPECT_GE(lost + note, 1'000U);
  EXPECT_LE(lost + note, 1'001U);
}

}  // namespace
}  // namespace headworks
