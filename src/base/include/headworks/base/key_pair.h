#pragma once

#include <string>

#include "headworks/base/result.h"

namespace headworks {

struct PemFile {
  std::string path;  // for errors
  std::string text;
};

/// Whether the key is that of the (first) certificate.  kInvalidArgument names the file that cannot
/// be used; a key with a passphrase is one, for nobody is there to be asked for it.
Status CheckKeyPair(const PemFile& certificate, const PemFile& key);

}  // namespace headworks
