"""The pages of the dashboard, for members of an organisation: `page` has their base, `pages` the list of them."""
