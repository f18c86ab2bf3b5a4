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

TEST(Redact, OtherTextStaysAsItIs) {
  for (const char* const text :
       {"", "a password is needed", "token", "secret =", "https://host:80/a@b", "basically ok",
        "a tokenizer", "://", "tokens"}) {
    EXPECT_EQ(RedactCredentials(text), text);
  }
}

TEST(Redact, UnendedQuotesAndEscapesEndWithTheText) {
  EXPECT_EQ(RedactCredentials("password='abc"), "password='***");
  EXPECT_EQ(RedactCredentials("password='abc\\"), "password='***");
}

}  // namespace
}  // namespace headworks::task_queue
