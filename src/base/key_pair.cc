#include "headworks/base/key_pair.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

namespace headworks {
namespace {

int NoPassphrase(char* /*into*/, int /*size*/, int /*writing*/, void* /*user*/) { return 0; }

template <auto Free>
struct FreeBy {
  void operator()(auto* object) const { Free(object); }
};

Error Bad(std::string message) {
  ERR_clear_error();  // whoever uses the library next is not to meet it
  return {Code::kInvalidArgument, std::move(message)};
}

}  // namespace

Status CheckKeyPair(const PemFile& certificate, const PemFile& key) {
  const auto open = [](const std::string& text) {
    return std::unique_ptr<BIO, FreeBy<&BIO_free>>(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  };
  const std::unique_ptr<X509, FreeBy<&X509_free>> x509(
      PEM_read_bio_X509(open(certificate.text).get(), nullptr, &NoPassphrase, nullptr));
  if (!x509)
    return Bad(
        fmt::format("the TLS certificate {} holds no certificate that can be read; give the "
                    "file with `BEGIN CERTIFICATE`",
                    certificate.path));
  const std::unique_ptr<EVP_PKEY, FreeBy<&EVP_PKEY_free>> secret(
      PEM_read_bio_PrivateKey(open(key.text).get(), nullptr, &NoPassphrase, nullptr));
  if (!secret)
    return Bad(
        fmt::format("the TLS key {} holds no private key that can be read; give the file "
                    "with `BEGIN PRIVATE KEY`, without a passphrase",
                    key.path));
  if (X509_check_private_key(x509.get(), secret.get()) != 1)
    return Bad(
        fmt::format("the TLS key {} is not that of the certificate {}; give both files of "
                    "one pair, the server's own certificate first",
                    key.path, certificate.path));
  return {};
}

}  // namespace headworks
