"""Rendered mails: their text, and what values cannot add to them."""

import re
from html.parser import HTMLParser

import pytest

from integrations.mail.templates import TEMPLATES, Link, RenderedMail, render

BAD = "<b>Free</b>\r\nBcc: eve@example.com\u202e & more"


def rendered(template: str, value: str = "x") -> RenderedMail:
    items = {"left", "lines"}
    return render(template, {name: [value] if name in items else value for name in TEMPLATES[template].fields})


every = pytest.mark.parametrize("template", TEMPLATES)


@every
def test_mail_has_a_subject_and_the_same_words_in_text_and_html(template: str) -> None:
    made = rendered(template, "https://example.com/?token=secret")
    assert made.subject
    assert made.html.startswith('<!doctype html>\n<html lang="en">')
    words = " ".join(paragraph for paragraph in TEMPLATES[template].paragraphs if isinstance(paragraph, str))
    assert all(word in made.text and word in made.html for word in words.split() if "{" not in word)


@every
def test_template_value_stays_on_its_line_and_is_escaped(template: str) -> None:
    made = rendered(template, BAD)
    assert "\r" not in made.subject + made.text
    assert "\n" not in made.subject
    assert "\nBcc:" not in made.text
    assert "\u202e" not in made.text
    assert "<b>" not in made.html
    assert "& more" not in made.html


@every
def test_long_template_value_is_cut(template: str) -> None:
    assert len(rendered(template, "x" * 100_000).text) < 5000


def test_braces_in_a_template_value_stay_as_they_are() -> None:
    values = {"organization": "{url}", "inviter": "{0.__class__}", "role": "member", "url": "u", "expires_at": "e"}
    assert "{0.__class__} has invited you to join {url}" in render("invitation", values).text


@pytest.mark.parametrize("template", ["verify_email", "known_address", "reset_password"])
def test_mail_that_a_stranger_can_trigger_quotes_no_input(template: str) -> None:
    assert all(name.endswith("url") for name in TEMPLATES[template].fields)


def test_invitation_has_no_input_in_its_subject() -> None:
    assert "Prizes" not in rendered("invitation", "Prizes").subject


def test_names_in_mails_are_short_and_are_no_addresses() -> None:
    made = rendered("invitation", "Win at https://evil.example or www.evil.example, eve@evil.example " + "x" * 100)
    paragraph = made.text.split("\n\n")[0]
    assert "https:\u2060//evil.\u2060example" in paragraph
    assert "www\u2060.evil.\u2060example" in paragraph
    assert "eve@\u2060evil.\u2060example" in paragraph
    assert "x" * 80 not in paragraph


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f", "\u202e", "\u2066", "\u200b", "\x85"])
def test_names_in_mails_cannot_change_the_direction_of_text(mark: str) -> None:
    assert mark not in rendered("organization_deleted", f"a{mark}b").text + rendered("rules_left", f"a{mark}b").subject


def test_links_have_their_own_lines() -> None:
    assert "\nhttps://example.com/?a=1&b=2\n" in rendered("verify_email", "https://example.com/?a=1&b=2").text
    assert 'href="https://example.com/?a=1&amp;b=2"' in rendered("verify_email", "https://example.com/?a=1&b=2").html


@pytest.mark.parametrize("missing", sorted(TEMPLATES["invitation"].fields))
def test_missing_template_value_is_an_error(missing: str) -> None:
    with pytest.raises(KeyError):
        render("invitation", dict.fromkeys(TEMPLATES["invitation"].fields - {missing}, "x"))


class Links(HTMLParser):
    """The links of an HTML part, and the styles of each."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.found: list[tuple[str, str]] = []
        self.labels: list[str] = []
        self._open = False
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "a":
            given = dict(attrs)
            self.found.append((given["href"] or "", given["style"] or ""))
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "a"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.labels.append(data)

    @property
    def buttons(self) -> list[str]:
        return [url for url, style in self.found if "background" in style]


def colors(style: str) -> tuple[str, str]:
    """Return the colours of text and background; a link without a background stands on white."""
    [text] = re.findall(r"(?:^|;)color:(#[0-9a-f]{6})", style)
    [background] = re.findall(r"(?:^|;)background(?:-color)?:(#[0-9a-f]{6})", style) or ["#ffffff"]
    return text, background


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(style: str) -> float:
    """Return the contrast of text and background (WCAG 2.2)."""
    dark, light = sorted(luminance(color) for color in colors(style))
    return (light + 0.05) / (dark + 0.05)


@every
def test_mail_has_one_button_if_it_leads_anywhere(template: str) -> None:
    urls = [each.field for each in TEMPLATES[template].paragraphs if isinstance(each, Link)]
    fields = TEMPLATES[template].fields
    values = {name: [name] if name in {"left", "lines"} else f"https://x.test/{name}" for name in fields}
    made = render(template, values)
    assert Links(made.html).buttons == [f"https://x.test/{name}" for name in urls[:1]]
    assert [url for url, _ in Links(made.html).found] == [f"https://x.test/{name}" for name in urls]
    assert all(f"\nhttps://x.test/{name}\n" in made.text for name in urls)


def test_mails_without_a_button_have_nothing_to_open() -> None:
    assert {name for name in TEMPLATES if not Links(rendered(name).html).buttons} == {
        "email_changed",
        "organization_deleted",
        "rules_left",
    }


@every
def test_mail_is_readable_without_images_and_style_sheets(template: str) -> None:
    made = rendered(template)
    assert not Links(made.html).tags & {"img", "style", "link", "script"}
    [body] = re.findall(r'<div lang="en" style="([^"]*)"', made.html)
    assert "max-width:" in body
    assert colors(body)[1] == "#ffffff"
    assert contrast(body) >= 7
    assert all(contrast(style) >= 4.5 for _, style in Links(made.html).found)
