// A page with its data: one file that needs nothing else.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace starling {

// `page` is a page embedded by tools/lib/embed_page.py. Its script finds `data` in the element with the id "data".
// Names and reasons in it may be anything: no byte of them ends that element.
std::string fill_page(std::string_view page, const nlohmann::ordered_json& data);

}  // namespace starling
