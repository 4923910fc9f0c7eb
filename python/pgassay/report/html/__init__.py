"""What all HTML pages share: templates, style, and the scripts of live charts."""
