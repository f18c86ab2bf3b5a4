#include <fmt/format.h>
#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "harness.h"

namespace headworks::rpc {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A key and a certificate for 127.0.0.1 that it signed itself, in files.
class Tls : public RpcTest {
 protected:
  Tls() {
    fs::create_directories(folder_);
    Make(cert, key);
    Make(strange, strange_key);
  }
  ~Tls() override { fs::remove_all(folder_); }

  static void Make(const std::string& cert_file, const std::string& key_file) {
    EVP_PKEY* const pair = EVP_EC_gen("P-256");
    X509* const x509 = X509_new();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -60);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3'600);
    X509_set_pubkey(x509, pair);
    X509_NAME* const name = X509_get_subject_name(x509);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(x509, name);
    X509_EXTENSION* const names =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(x509, names, -1);
    X509_sign(x509, pair, EVP_sha256());
    std::FILE* const certificate = std::fopen(cert_file.c_str(), "w");
    PEM_write_X509(certificate, x509);
    std::fclose(certificate);
    std::FILE* const secret = std::fopen(key_file.c_str(), "w");
    PEM_write_PrivateKey(secret, pair, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(secret);
    X509_EXTENSION_free(names);
    X509_free(x509);
    EVP_PKEY_free(pair);
  }

  Error Refused(const std::string& cert_file, const std::string& key_file) {
    const auto server = RpcServer::Open(
        {.address = "127.0.0.1:0", .tls_cert_file = cert_file, .tls_key_file = key_file},
        {engine, words, clock, log});
    return server ? Error{Code::kInternal, "it was served"} : server.error();
  }
  /// What whoever trusts `ca` is told by a server with these files.
  Error NoAnswer(const std::string& cert_file, const std::string& key_file, const std::string& ca,
                 const std::string& host = "127.0.0.1") {
    const auto server =
        Serve({.address = host + ":0", .tls_cert_file = cert_file, .tls_key_file = key_file});
    const auto client = Connect(server->address(), "good", {.tls_ca_file = ca});
    const auto answer = Leave(*client);
    return answer ? Error{Code::kInternal, "it was answered"} : answer.error();
  }
  Result<bool> Leave(RpcClient& client) {
    Answered<bool> answer;
    client.Leave(who, answer.done());
    return answer.Get();
  }

  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      ("rpc_tls_" + std::to_string(SystemClock().Now().time_since_epoch().count()));
  const std::string cert = folder_ / "cert.pem", key = folder_ / "key.pem";
  const std::string strange = folder_ / "strange.pem", strange_key = folder_ / "strange_key.pem";
};

TEST_F(Tls, WhoTrustsTheCertificateIsServed) {
  const auto server = Serve({.address = "127.0.0.1:0", .tls_cert_file = cert, .tls_key_file = key});
  const auto client = Connect(server->address(), "good", {.tls_ca_file = cert});
  Answered<bool> answer;
  client->Leave(who, answer.done());
  engine.left.Take().second(true);
  EXPECT_EQ(answer.Value(), true);
}

TEST_F(Tls, WhoDoesNotOrSpeaksPlainlyIsToldWhatToDo) {
  const Error wary = NoAnswer(cert, key, strange);
  EXPECT_EQ(wary.code, Code::kUnavailable);
  EXPECT_THAT(wary.message, HasSubstr("its certificate is not one of " + strange));
  const Error elsewhere = NoAnswer(cert, key, cert, "127.0.0.2");
  EXPECT_EQ(elsewhere.code, Code::kUnavailable);
  EXPECT_THAT(elsewhere.message, HasSubstr("its certificate is not for this name"));
  const Error plain = NoAnswer(cert, key, "");
  EXPECT_EQ(plain.code, Code::kUnavailable);
  EXPECT_THAT(plain.message, HasSubstr("if it expects TLS, name the authority"));
  const Error secret = NoAnswer("", "", cert);
  EXPECT_EQ(secret.code, Code::kUnavailable);
  EXPECT_THAT(secret.message, HasSubstr("it speaks no TLS"));
}

TEST_F(Tls, FilesThatCannotBeUsedAreNamed) {
  EXPECT_EQ(Refused(cert, "").code, Code::kInvalidArgument);
  EXPECT_EQ(Refused("", key).code, Code::kInvalidArgument);
  EXPECT_EQ(Refused(cert, folder_ / "none.pem").code, Code::kInvalidArgument);
  std::ofstream(folder_ / "text.pem") << "no certificate";
  EXPECT_EQ(Refused(folder_ / "text.pem", key).code, Code::kInvalidArgument);
  const std::pair<std::string, std::string> pairs[] = {
      {strange_key,
       fmt::format("the TLS key {} is not that of the certificate {}", strange_key, cert)},
      {cert, fmt::format("the TLS key {} holds no private key that can be read", cert)}};
  for (const auto& [other, what] : pairs) {
    const Error refused = Refused(cert, other);
    EXPECT_EQ(refused.code, Code::kInvalidArgument);
    EXPECT_THAT(refused.message, HasSubstr(what));
  }
  EXPECT_THAT(Refused(key, key).message,
              HasSubstr(fmt::format("the TLS certificate {} holds no certificate", key)));
  const auto client = RpcClient::Open({.target = "127.0.0.1:1",
                                       .tls_ca_file = folder_ / "none.pem",
                                       .credential = [] { return ""; }});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kInvalidArgument);
  EXPECT_NE(client.error().message.find("none.pem"), std::string::npos);
}

}  // namespace
}  // namespace headworks::rpc
