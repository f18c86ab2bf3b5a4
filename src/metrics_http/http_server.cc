// The one place that sees Boost.Beast, because it takes long to compile.
#include "headworks/metrics_http/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

namespace headworks::metrics_http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Result<tcp::endpoint> Parse(std::string_view address) {
  const auto bad = [&] {
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is not an IP address and a port, e.g. 127.0.0.1:9464", address)};
  };
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(colon + 1);
  unsigned port = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (ec != std::errc() || end != digits.data() + digits.size() || port > 65'535) return bad();
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(host, error);
  if (error || ip.is_v6() != bracketed) return bad();
  return tcp::endpoint(ip, static_cast<std::uint16_t>(port));
}

std::string Format(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return fmt::format("{}:{}", endpoint.address().is_v6() ? "[" + host + "]" : host,
                     endpoint.port());
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const ServerOptions& options, Handler handler, Logger& logger)
      : options_(options), handler_(std::move(handler)), logger_(logger) {}
  ~Impl() {
    context_.stop();
    thread_ = {};  // what is under way is destroyed with the context, after its thread
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status Open(const tcp::endpoint& endpoint) {
    try {
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
      address_ = Format(acceptor_.local_endpoint());
    } catch (const boost::system::system_error& error) {
      if (error.code() == asio::error::no_descriptors) throw;  // of the machine, not the address
      return Error{
          error.code() == asio::error::address_in_use ? Code::kConflict : Code::kInvalidArgument,
          fmt::format("cannot listen on {}: {}; choose another one", Format(endpoint),
                      error.code().message())};
    }
    asio::co_spawn(context_, Accept(), Ends("monitoring over HTTP has ended"));
    thread_ = std::jthread([this] { context_.run(); });
    return {};
  }
  const std::string& address() const { return address_; }

 private:
  asio::awaitable<void> Accept() {
    for (bool failed = false;;) {
      std::string trouble;
      try {
        auto [error, socket] = co_await acceptor_.async_accept(kAwait);
        if (error) trouble = error.message();
        if (!error && connections_ < kMostConnections)
          asio::co_spawn(context_, Serve(beast::tcp_stream(std::move(socket))),
                         Ends("a connection for monitoring broke"));
      } catch (const std::exception& thrown) {
        trouble = thrown.what();
      }
      const bool before = std::exchange(failed, !trouble.empty());
      if (failed && !before)
        logger_.Error("no connections for monitoring can be accepted; will try again",
                      {{"address", address_}, {"error", trouble}});
      if (!failed && before)
        logger_.Warning("connections for monitoring are accepted again", {{"address", address_}});
      if (!failed) continue;
      asio::steady_timer pause(context_, options_.accept_again);
      co_await pause.async_wait(kAwait);
    }
  }

  /// Says what a coroutine threw.
  std::function<void(std::exception_ptr)> Ends(std::string_view message) {
    return [this, message](const std::exception_ptr& thrown) {
      if (!thrown) return;
      std::string what = "something that is no std::exception";
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& error) {
        what = error.what();
      } catch (...) {  // said as it stands
      }
      logger_.Error(message, {{"address", address_}, {"error", what}});
    };
  }

  asio::awaitable<void> Serve(beast::tcp_stream stream) {
    const Counted counted(connections_);
    beast::flat_buffer buffer(kLongestHead);
    for (bool again = true; again;) {
      http::request_parser<http::empty_body> parser;
      parser.header_limit(kLongestHead);
      stream.expires_after(options_.patience);
      const auto [error, read] = co_await http::async_read_header(stream, buffer, parser, kAwait);
      const bool is_http = error.category() == http::make_error_code(http::error{}).category();
      if (error && (!is_http || error == http::error::end_of_stream)) co_return;
      again = !error && parser.get().keep_alive() && parser.is_done();  // a body is not read
      const Response response =
          error ? Response{.status = error == http::error::header_limit ||
                                             error == http::error::buffer_overflow
                                         ? 431U
                                         : 400U,
                           .body = "not understood: " + error.message() + "\n"}
                : Answer(parser.get().method(), parser.get().target());
      http::response<http::string_body> message(http::int_to_status(response.status), 11);
      message.set(http::field::content_type, response.content_type);
      message.set(http::field::cache_control, "no-store");
      if (response.status == 405) message.set(http::field::allow, "GET, HEAD");
      message.keep_alive(again);
      message.content_length(response.body.size());
      if (error || parser.get().method() != http::verb::head) message.body() = response.body;
      http::response_serializer<http::string_body> serializer(message);
      stream.expires_after(options_.patience);
      const auto [failed, written] = co_await http::async_write(stream, serializer, kAwait);
      if (failed) co_return;
    }
    co_await Close(stream);
  }

  /// Closing with bytes unread would take back the answer, so what still comes is read for a while.
  asio::awaitable<void> Close(beast::tcp_stream& stream) {
    boost::system::error_code error;
    if (stream.socket().shutdown(tcp::socket::shutdown_send, error)) co_return;  // it left first
    stream.expires_after(options_.farewell);
    std::array<char, 4'096> rest;
    for (std::size_t left = options_.longest_farewell; left > 0;) {
      const auto [failed, read] = co_await stream.async_read_some(asio::buffer(rest), kAwait);
      if (failed) co_return;
      left -= std::min(left, read);
    }
  }

  Response Answer(http::verb method, std::string_view target) {
    if (method != http::verb::get && method != http::verb::head)
      return {.status = 405, .body = "only GET and HEAD are answered here\n"};
    try {
      return handler_(target.substr(0, target.find('?')));
    } catch (const std::exception& error) {
      return {.status = 500, .body = fmt::format("{}\n", error.what())};
    }
  }

  /// One connection while it lives.
  class Counted {
   public:
    explicit Counted(std::size_t& count) : count_(count) { ++count_; }
    ~Counted() { --count_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    std::size_t& count_;
  };

  const ServerOptions options_;
  const Handler handler_;
  Logger& logger_;
  std::string address_;
  std::size_t connections_ = 0;  // its thread's
  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  std::jthread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Status HttpServer::CheckAddress(std::string_view address) {
  HEADWORKS_ASSIGN([[maybe_unused]] const auto endpoint, Parse(address));
  return {};
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(std::string_view address,
                                                       const ServerOptions& options,
                                                       Handler handler, Logger& logger) {
  HEADWORKS_ASSIGN(const auto endpoint, Parse(address));
  try {
    auto impl = std::make_unique<Impl>(options, std::move(handler), logger);
    HEADWORKS_TRY(impl->Open(endpoint));
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& error) {
    return Error{Code::kUnavailable,
                 fmt::format("cannot listen on {}: {}", Format(endpoint), error.what())};
  }
}

std::string HttpServer::address() const { return impl_->address(); }

}  // namespace headworks::metrics_http
