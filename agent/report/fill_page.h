// Puts data into a page: the result is one self-contained file.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace starling {

// `page` is a page embedded by tools/lib/embed_page.py. Its script finds `data` in the element with the id "data".
// Names and reasons in it are foreign text; they are escaped, so that none can end that element.
std::string fill_page(std::string_view page, const nlohmann::ordered_json& data);

}  // namespace starling
