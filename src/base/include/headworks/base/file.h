#pragma once

#include <string>
#include <string_view>

/// What a file system does in several calls.  All answer as those do: false = errno says why.
namespace headworks {

/// All of `bytes`, from where the descriptor stands.
bool WriteAll(int fd, std::string_view bytes);

/// What `folder` lists now (empty = where this process works) is there after a power failure.
bool SyncFolder(const std::string& folder);

/// The one name of a file, absolute and without links, whether or not it is there: what lies beside
/// a file is found by it.  Where a folder above may not be read, links are left in it.
std::string RealPath(const std::string& path);

/// A new file beside `path`, under a name of its own, with all of `text`, synced: its name.  Empty
/// = there is none.
std::string WriteBeside(const std::string& path, std::string_view text, unsigned mode);

/// `path` has `text` and `mode`, durably: a crash at any moment leaves that or what was there
/// before.  A link is replaced, not followed.
bool ReplaceFile(const std::string& path, std::string_view text, unsigned mode);

}  // namespace headworks
