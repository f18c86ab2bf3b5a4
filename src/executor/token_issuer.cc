#include "headworks/executor/token_issuer.h"

namespace headworks::executor {

std::string_view TokenFaultName(TokenFault fault) {
  switch (fault) {
    case TokenFault::kMalformed:
      return "malformed";
    case TokenFault::kAlgorithm:
      return "algorithm";
    case TokenFault::kUnknownKey:
      return "unknown_key";
    case TokenFault::kBadSignature:
      return "bad_signature";
    case TokenFault::kWrongUse:
      return "wrong_use";
    case TokenFault::kNotYetValid:
      return "not_yet_valid";
    case TokenFault::kExpired:
      return "expired";
    case TokenFault::kCeiling:
      return "credential_ceiling";
  }
  return "unknown";
}

Error ToError(TokenFault fault) {
  const auto text = [&]() -> std::string_view {
    switch (fault) {
      case TokenFault::kMalformed:
        return "this is no token of an attempt; send the one that was given, unchanged";
      case TokenFault::kAlgorithm:
        return "the token is not signed with HMAC-SHA256; only tokens of this engine are taken";
      case TokenFault::kUnknownKey:
        return "the token's key is not known here; it was rotated away, or belongs to another "
               "installation";
      case TokenFault::kBadSignature:
        return "the token's signature does not fit; send the one that was given, unchanged";
      case TokenFault::kWrongUse:
        return "the token is for another use; a start token opens the gate, a working token the "
               "rest";
      case TokenFault::kNotYetValid:
        return "the token is from the future; compare the clocks of both hosts";
      case TokenFault::kExpired:
        return "the token has expired; the attempt is no longer heard";
      case TokenFault::kCeiling:
        return "the token was renewed for as long as it may be; the attempt is over";
    }
    return "the token is refused";
  }();
  std::string message(text);
  message += " (";
  message += TokenFaultName(fault);
  return {Code::kPermissionDenied, message + ")"};
}

}  // namespace headworks::executor
