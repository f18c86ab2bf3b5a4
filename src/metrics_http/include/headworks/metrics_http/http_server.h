#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/base/time.h"

/// What a monitoring system asks over HTTP.
namespace headworks::metrics_http {

struct Response {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct ServerOptions {
  /// For each request to arrive, and for each answer to leave.
  Duration patience = std::chrono::seconds(10);
  /// How long, and with how many bytes, whoever got the last answer may go on talking.
  Duration farewell = std::chrono::seconds(1);
  std::size_t longest_farewell = 65'536;
  /// Before connections are taken again when that failed, as where no more files can be opened.
  Duration accept_again = std::chrono::milliseconds(100);
};

/// Answers GET and HEAD over HTTP/1.1, unencrypted and to whoever asks: meant for loopback, or for
/// a network where that is right.
///
/// Life.  Listen, destroy; the destructor stops it.
/// Threads.  One of its own, on which `handler` is called: while that works nobody else is
///   answered.
/// Bounds.  32 connections, more are closed; 8 KiB for a request's line and again for its fields,
///   no body; those of ServerOptions.
/// Errors.  While no connection can be accepted it tries again; of each such time the log has one
///   line when it begins and one when it ends.
class HttpServer {
 public:
  static constexpr std::size_t kMostConnections = 32;
  static constexpr std::size_t kLongestHead = 8'192;

  /// The answer to a path, given without its query.
  using Handler = std::function<Response(std::string_view path)>;

  /// Whether `address` is one: "127.0.0.1:9464", "[::1]:9464", "localhost:9464"; without a host
  /// (":9464") it is 127.0.0.1.  Port 0 = any that is free.
  static Status CheckAddress(std::string_view address);
  /// kInvalidArgument: as CheckAddress, or the address is not this machine's to use.  kConflict: it
  /// is taken.  kUnavailable: the machine has no socket or thread to give.  `logger` is borrowed.
  static Result<std::unique_ptr<HttpServer>> Listen(std::string_view address,
                                                    const ServerOptions& options, Handler handler,
                                                    Logger& logger);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "127.0.0.1:41837": with the port that it has.
  std::string address() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headworks::metrics_http
