#include "headworks/task_queue/redact.h"

#include <gtest/gtest.h>

namespace headworks::task_queue {
namespace {

TEST(Redact, CredentialsAreTakenOut) {
  EXPECT_EQ(RedactCredentials("password=hunter2 rest"), "password=*** rest");
  EXPECT_EQ(RedactCredentials("DB_PASSWORD: 'a b' rest"), "DB_PASSWORD: '***' rest");
  EXPECT_EQ(RedactCredentials(R"({"api_key": "k\"1", "n": 1})"), R"({"api_key": "***", "n": 1})");
  EXPECT_EQ(RedactCredentials("Authorization: Bearer abc.def, x\nnext"),
            "Authorization: Bearer ***\nnext");
  EXPECT_EQ(RedactCredentials("authorization: Token abc"), "authorization: ***");
  EXPECT_EQ(RedactCredentials(R"(-H "Authorization: Token abc" rest)"),
            R"(-H "Authorization: ***" rest)");
  EXPECT_EQ(RedactCredentials(R"({"Authorization": "Digest a=b, c"})"),
            R"({"Authorization": "***"})");
  EXPECT_EQ(RedactCredentials("Set-Cookie: id=1; Path=/"), "Set-Cookie: ***");
  EXPECT_EQ(RedactCredentials("AWS_SECRET_ACCESS_KEY=abc token-id: 7"),
            "AWS_SECRET_ACCESS_KEY=*** token-id: ***");
  EXPECT_EQ(RedactCredentials("sent bearer abc, then basic Zm9v"),
            "sent bearer ***, then basic ***");
  EXPECT_EQ(RedactCredentials("postgres://joe:s3cr:et@db:5432/x?a=b"),
            "postgres://joe:***@db:5432/x?a=b");
  EXPECT_EQ(RedactCredentials("token=a&secret=b"), "token=***&secret=***");
}

TEST(Redact, CredentialsAreFoundInTheFormsThatProgramsPrint) {
  EXPECT_EQ(RedactCredentials(R"({"SecretAccessKey": "x", "Version": 1})"),
            R"({"SecretAccessKey": "***", "Version": 1})");
  EXPECT_EQ(RedactCredentials("X-Api-Key: x\nnext"), "X-Api-Key: ***\nnext");
  EXPECT_EQ(RedactCredentials("password:\tx y"), "password:\t*** y");
  EXPECT_EQ(RedactCredentials("password => 'x', n => 1"), "password => '***', n => 1");
  EXPECT_EQ(RedactCredentials("Pwd=x;Server=y"), "Pwd=***;Server=y");
  EXPECT_EQ(RedactCredentials("passphrase: x"), "passphrase: ***");
  EXPECT_EQ(RedactCredentials("private_key=x access_key=y secretKey=z accessToken := t"),
            "private_key=*** access_key=*** secretKey=*** accessToken := ***");
  EXPECT_EQ(RedactCredentials("cloning https://ghp_1@host/x"), "cloning https://***@host/x");
  EXPECT_EQ(
      RedactCredentials("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----"),
      "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----");
  EXPECT_EQ(RedactCredentials("key-----BEGIN PRIVATE KEY-----\nMII"),
            "key-----BEGIN PRIVATE KEY-----***");
}

TEST(Redact, CredentialsAreFoundInJsonWithinJson) {
  EXPECT_EQ(RedactCredentials(R"({"body": "{\"password\":\"h\\\"2\",\"n\":1}"})"),
            R"({"body": "{\"password\":\"***\",\"n\":1}"})");
  EXPECT_EQ(RedactCredentials(R"({\"token\": \"ends in a backslash\\\\\", \"n\": \"1\"})"),
            R"({\"token\": \"***\", \"n\": \"1\"})");
  EXPECT_EQ(RedactCredentials(R"({\\\"token\\\":\\\"a\\\\\\\"b\\\",\\\"n\\\":1})"),
            R"({\\\"token\\\":\\\"***\\\",\\\"n\\\":1})");
}

// Strangers choose the text; what takes the square of this takes hours.
TEST(Redact, LongTextsTakeTimeInProportion) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  for (const std::string_view piece :
       {"token-", "token", "token ", "token\\", "\\", "://", "://a:", "a@",
        "password=", "password='", "password=\"\\", "bearer ", "Cookie:", "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----", "-", "aB", "\t", "\xFF"}) {
    std::string text;
    text.reserve(kBytes + piece.size());
    while (text.size() < kBytes) text += piece;
    EXPECT_FALSE(RedactCredentials(text).empty());
  }
}

TEST(Redact, OtherTextStaysAsItIs) {
  for (const char* const text :
       {"", "a password is needed", "token", "secret =", "https://host:80/a@b", "basically ok",
        "a tokenizer", "://", "tokens", "max_tokens: 5", "the secretary: Bob", "monkey=1",
        "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----", "password:\nx"}) {
    EXPECT_EQ(RedactCredentials(text), text);
  }
}

TEST(Redact, UnendedQuotesAndEscapesEndWithTheText) {
  EXPECT_EQ(RedactCredentials("password='abc"), "password='***");
  EXPECT_EQ(RedactCredentials("password='abc\\"), "password='***");
}

}  // namespace
}  // namespace headworks::task_queue
